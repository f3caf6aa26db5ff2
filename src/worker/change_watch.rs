//! How far a dispatcher has looked for changes of schedules. The index keeps the entries of those that were applied until they are vacuumed: where
//! nothing can have come, it is not asked.

use scheduler_core::Instant;

/// How often to look for changes of which no commit has told, in microseconds.
const EVERY: i64 = 1_000_000;

/// Where the next look begins.
#[derive(Default)]
pub struct ChangeWatch {
    /// Behind the changes up to this one, which others have in hand.
    pub after: i64,
    /// Until then no change waits, unless a commit wakes the dispatcher or it makes one itself.
    none_until: Option<Instant>,
}

impl ChangeWatch {
    /// To be said when a change may have come.
    pub fn may_have_come(&mut self, may: bool) {
        self.none_until = self.none_until.filter(|_| !may);
    }

    /// Behind which change to look: behind all where none can wait.
    pub fn look_after(&self, now: Instant) -> i64 {
        let is_known = self.after == 0 && self.none_until.is_some_and(|until| now < until);
        if is_known {
            i64::MAX
        } else {
            self.after
        }
    }

    /// To be said after a look behind `after`; true where it has to begin anew, because it has come to the end of the queue: what others had in
    /// hand may be left before it.
    pub fn found(&mut self, after: i64, more: bool, now: Instant) -> bool {
        if !more && self.after > 0 {
            self.after = 0;
            return true;
        }
        if after < i64::MAX {
            self.none_until = now.checked_add_micros(EVERY).filter(|_| !more);
        }
        false
    }
}
