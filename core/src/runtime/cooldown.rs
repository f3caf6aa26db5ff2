//! How long a step waits before its next turn, after a failure or when others hold its work.
//!
//! All else is planned by the wall clock, which somebody may set back or forward. A cooldown runs by the monotonic clock, so
//! it keeps its length.

use std::time::{Duration, Instant as Moment};

use crate::time::Instant;

use super::backoff;

/// How long to wait before looking again at what others have in hand, in microseconds. Their commit wakes us earlier.
pub const BUSY: i64 = 250_000;

/// One time by both clocks.
#[derive(Clone, Copy, Debug)]
pub struct Now {
    /// What the wall clock says.
    pub wall: Instant,
    /// What the clock says that only goes forward.
    pub moment: Moment,
}

impl Now {
    /// Whether somebody has set the wall clock between this time and a later one, by more than a second.
    #[must_use]
    pub fn was_set_until(self, later: Now) -> bool {
        const NOTICED: u64 = 1_000_000;
        let passed = i64::try_from(later.moment.saturating_duration_since(self.moment).as_micros()).unwrap_or(i64::MAX);
        let shown = later.wall.as_micros().saturating_sub(self.wall.as_micros());
        shown.abs_diff(passed) > NOTICED
    }
}

/// The failures of a step in a row, and until when it waits.
#[derive(Clone, Copy, Debug, Default)]
pub struct Cooldown {
    failures: i32,
    until: Option<Moment>,
}

impl Cooldown {
    /// After one more failure: it waits from now on, longer each time.
    #[must_use]
    pub fn after_failure(self, now: Now) -> Cooldown {
        let failures = self.failures.saturating_add(1);
        Cooldown { failures, until: in_micros(backoff::after_fire_failures(failures), now) }
    }

    /// After a turn that began at `began` by the wall clock and found nothing to do. What was due then and still is, others have in hand.
    #[must_use]
    pub fn after_nothing(deadline: Option<Instant>, began: Instant, now: Now) -> Cooldown {
        let others = deadline.is_some_and(|deadline| deadline <= began);
        Cooldown { failures: 0, until: in_micros(BUSY, now).filter(|_| others) }
    }

    /// The same, but over after so many microseconds at the latest.
    #[must_use]
    pub fn no_longer_than(self, micros: i64, now: Now) -> Cooldown {
        Cooldown { until: self.until.min(in_micros(micros, now)), ..self }
    }

    /// A commit has woken us: what others had in hand they may have given back. A step that failed waits on.
    pub fn end_wait_for_others(&mut self) {
        self.until = self.until.filter(|_| self.failures > 0);
    }

    /// Whether the next turn may begin.
    #[must_use]
    pub fn is_over(&self, now: Now) -> bool {
        self.until.is_none_or(|until| until <= now.moment)
    }

    /// When, by the wall clock as it is set now, a step whose work is due at `deadline` has its next turn.
    #[must_use]
    pub fn next_turn(&self, deadline: Option<Instant>, now: Now) -> Option<Instant> {
        let left = self.until.filter(|_| !self.is_over(now)).map(|until| until.duration_since(now.moment));
        // Rounded up: one who comes a moment early has come for nothing.
        let micros = |left: Duration| i64::try_from(left.as_micros()).unwrap_or(i64::MAX).saturating_add(1);
        let earliest = left.and_then(|left| now.wall.checked_add_micros(micros(left)));
        deadline.map(|deadline| deadline.max(earliest.unwrap_or(deadline)))
    }
}

fn in_micros(micros: i64, now: Now) -> Option<Moment> {
    now.moment.checked_add(Duration::from_micros(micros.max(0).unsigned_abs()))
}

#[cfg(test)]
#[allow(clippy::unwrap_used, reason = "test code")]
mod tests {
    use super::{Cooldown, Now};
    use crate::Instant;
    use std::time::{Duration, Instant as Moment};

    const SECOND: i64 = 1_000_000;
    const HOUR: i64 = 3600 * SECOND;

    fn at(seconds: i64) -> Instant {
        Instant::from_micros(seconds * SECOND).unwrap()
    }

    /// So much later, with the wall clock set by `set` seconds meanwhile.
    fn later(now: Now, millis: u64, set: i64) -> Now {
        let micros = i64::try_from(millis).unwrap() * 1000 + set * SECOND;
        let wall = now.wall.checked_add_micros(micros).unwrap();
        Now { wall, moment: now.moment + Duration::from_millis(millis) }
    }

    /// What is due at once comes again so many seconds from now by the wall clock.
    fn comes_again_in(cooldown: Cooldown, now: Now) -> u64 {
        let then = cooldown.next_turn(Some(Instant::MIN), now).unwrap();
        if cooldown.is_over(now) {
            assert_eq!(then, Instant::MIN);
            return 0;
        }
        u64::try_from((then.as_micros() - now.wall.as_micros()) / SECOND).unwrap()
    }

    #[test]
    fn a_clock_that_is_set_makes_no_cooldown_longer_or_shorter() {
        let began = Now { wall: at(1_000_000), moment: Moment::now() };
        let thrice = Cooldown::default().after_failure(began).after_failure(began).after_failure(began);
        for set in [0, -HOUR / SECOND, HOUR / SECOND, -1, 1] {
            for (failed, pause) in [(Cooldown::default().after_failure(began), 1), (thrice, 4)] {
                assert_eq!(comes_again_in(failed, later(began, 0, set)), pause, "{set}");
                assert!(!failed.is_over(later(began, pause * 1000 - 1, set)), "{set}");
                assert!(failed.is_over(later(began, pause * 1000, set)), "{set}");
            }
            let busy = Cooldown::after_nothing(Some(began.wall), began.wall, began);
            assert!(!busy.is_over(later(began, 249, set)) && busy.is_over(later(began, 250, set)), "{set}");
            let short = thrice.no_longer_than(2 * SECOND, began);
            assert_eq!(comes_again_in(short, later(began, 500, set)), 1, "{set}");
        }
    }

    #[test]
    fn what_is_due_later_than_a_cooldown_ends_comes_when_it_is_due() {
        let now = Now { wall: at(1_000_000), moment: Moment::now() };
        let failed = Cooldown::default().after_failure(now);
        assert_eq!(failed.next_turn(Some(at(1_000_005)), now), Some(at(1_000_005)));
        assert_eq!(failed.next_turn(None, now), None);
        assert_eq!(Cooldown::default().next_turn(Some(at(7)), now), Some(at(7)));
        // Nobody had in hand what was not yet due.
        assert!(Cooldown::after_nothing(Some(at(1_000_001)), now.wall, now).is_over(now));
        assert!(Cooldown::after_nothing(None, now.wall, now).is_over(now));
    }

    #[test]
    fn a_commit_ends_the_wait_for_others_and_no_cooldown_after_a_failure() {
        let now = Now { wall: at(1_000_000), moment: Moment::now() };
        let mut busy = Cooldown::after_nothing(Some(now.wall), now.wall, now);
        let mut failed = Cooldown::default().after_failure(now);
        busy.end_wait_for_others();
        failed.end_wait_for_others();
        assert!(busy.is_over(now) && !failed.is_over(now));
    }
}
