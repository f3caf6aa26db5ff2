//! How far a dispatcher has offered what waits for a time.

use scheduler_core::runtime::cooldown::{Cooldown, Now};
use scheduler_core::Instant;

use crate::dispatch;
use crate::pg::{role, Session};

/// What it remembers of that.
pub struct RetryOffers {
    /// What waited for a time to this one others have in hand, until `left` is over: what comes due meanwhile does not wait for it.
    until: Instant,
    left: Cooldown,
    /// What waited for a time to this one has been looked at: what has come due since does not wait for all that is left of it.
    looked_until: Instant,
}

impl Default for RetryOffers {
    fn default() -> RetryOffers {
        RetryOffers { until: Instant::MIN, left: Cooldown::default(), looked_until: Instant::MAX }
    }
}

impl RetryOffers {
    /// Others have in hand what waited for a time up to this one.
    pub fn before(&self, now: Now) -> Instant {
        if self.left.is_over(now) {
            Instant::MIN
        } else {
            self.until
        }
    }

    /// To be said when a commit may have ended what others had in hand.
    pub fn end_wait_for_others(&mut self) {
        self.left.end_wait_for_others();
    }

    /// When to look again at what is `left` behind because others have it in hand.
    pub fn next_turn(&self, left: bool, now: Now) -> Option<Instant> {
        self.left.next_turn(left.then_some(Instant::MIN), now)
    }

    /// Makes up to `limit` of what is due claimable; how many.
    pub fn offer(&mut self, session: &Session, began: Now, limit: i64) -> usize {
        let now = began.wall;
        // (Where the clock was set back there is nothing between.)
        let since = std::mem::replace(&mut self.looked_until, now).min(now);
        let count = dispatch::promote_retries(session, self.before(began), since, now, limit, role::DISPATCHER);
        if count == 0 {
            if self.left.is_over(began) {
                self.left = Cooldown::after_nothing(Some(now), now, began);
            }
            self.until = now;
        }
        usize::try_from(count).unwrap_or(0)
    }
}
