//! Whether somebody has set the wall clock back: by a clock that nobody sets, and told once.

use std::time::Duration;

use crate::runtime::cooldown::Now;

/// What is less is no matter: a schedule is silent for no longer than that.
const NOTICED: Duration = Duration::from_secs(60);

/// Watches the wall clock from one look to the next.
#[derive(Clone, Copy, Debug)]
pub struct SetBack {
    /// When it was the furthest ahead of the other one.
    furthest: Now,
}

impl SetBack {
    /// Watches from now on.
    #[must_use]
    pub fn since(now: Now) -> SetBack {
        SetBack { furthest: now }
    }

    /// By how much the wall clock was set back, if that is more than a minute since it was last told; in however many steps.
    pub fn told(&mut self, now: Now) -> Option<Duration> {
        let passed = now.moment.saturating_duration_since(self.furthest.moment);
        let passed = i64::try_from(passed.as_micros()).unwrap_or(i64::MAX);
        let shown = now.wall.as_micros().saturating_sub(self.furthest.wall.as_micros());
        let back = passed.saturating_sub(shown);
        if back <= 0 {
            self.furthest = now;
        }
        let back = Duration::from_micros(back.max(0).unsigned_abs());
        (back > NOTICED).then(|| {
            self.furthest = now;
            back
        })
    }
}

#[cfg(test)]
#[allow(clippy::unwrap_used, reason = "test code")]
mod tests {
    use super::SetBack;
    use crate::runtime::cooldown::Now;
    use crate::Instant;
    use std::time::{Duration, Instant as Moment};

    const SECOND: i64 = 1_000_000;

    /// What is told of a clock that is looked at each second, and set by so many seconds before each look.
    fn told(sets: &[i64]) -> Vec<Option<u64>> {
        let mut now = Now { wall: Instant::from_micros(1_000_000 * SECOND).unwrap(), moment: Moment::now() };
        let mut watch = SetBack::since(now);
        let look = |set: &i64| {
            now.wall = now.wall.checked_add_micros((set + 1) * SECOND).unwrap();
            now.moment += Duration::from_secs(1);
            watch.told(now).map(|back| back.as_secs())
        };
        sets.iter().map(look).collect()
    }

    #[test]
    fn a_clock_that_is_set_back_by_more_than_a_minute_is_told_once() {
        assert_eq!(told(&[0, 0]), [None, None]);
        assert_eq!(told(&[-60, 0]), [None, None]);
        assert_eq!(told(&[-61, 0, 0]), [Some(61), None, None]);
        assert_eq!(told(&[86_400, 0, -86_400, 0, -3600]), [None, None, Some(86_400), None, Some(3600)]);
        // In steps; and what was set forward meanwhile counts.
        assert_eq!(told(&[-40, -40, 0, -40, -40]), [None, Some(80), None, None, Some(80)]);
        assert_eq!(told(&[-40, 30, -40, 0, 100, -50]), [None, None, None, None, None, None]);
        assert_eq!(told(&[-40, 100, -50, -20]), [None, None, None, Some(70)]);
    }
}
