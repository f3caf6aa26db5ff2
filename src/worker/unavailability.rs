//! What keeps the launcher from giving databases their dispatchers: each reason is said once, and tried again in its own time.

use std::collections::HashMap;
use std::ffi::CStr;
use std::time::{Duration, Instant};

use pgrx::PgLogLevel;

use crate::pg::error::{self, Failure};

/// The first try comes after this long; each pause is as long as all before,
pub const RETRY_AFTER: Duration = Duration::from_secs(1);
/// but no longer than this.
pub const RETRY_AT_MOST: Duration = Duration::from_secs(32);
/// A worker slot is free only some moments after its worker has ended: to find none for so long is a reason to warn.
const TO_WARN: Duration = Duration::from_secs(1);

/// When a reason is over.
#[derive(Clone, Copy, PartialEq, Eq)]
pub enum Ends {
    /// When a look does not find it any more.
    Unseen,
    /// When every database has its dispatcher: until then a look that does not find it tells nothing.
    AllServed,
}

struct Reason {
    failure: Failure,
    since: Instant,
    ends: Ends,
    warned: bool,
    /// This look has found it.
    found: bool,
    /// The databases that it keeps waiting, as this look has found them.
    waiting: Vec<String>,
}

/// How many databases a warning names.
const MOST_NAMES: usize = 10;

/// The reasons that hold, by what is said of them.
#[derive(Default)]
pub struct Unavailability {
    reasons: HashMap<String, Reason>,
    /// The log was told of one that is over, and not yet that all is well.
    owes_the_end: bool,
}

impl Unavailability {
    /// A look begins.
    pub fn begin(&mut self) {
        for reason in self.reasons.values_mut() {
            reason.found = false;
            reason.waiting.clear();
        }
    }

    /// It has found this; when to try again.
    pub fn record(&mut self, failure: Failure, ends: Ends, now: Instant) -> Instant {
        self.found(failure, ends, now).1
    }

    /// The same of what keeps a database from having its dispatcher.
    pub fn record_of(&mut self, database: &CStr, failure: Failure, now: Instant) -> Instant {
        let (reason, again) = self.found(failure, Ends::AllServed, now);
        reason.waiting.push(database.to_string_lossy().into_owned());
        again
    }

    fn found(&mut self, failure: Failure, ends: Ends, now: Instant) -> (&mut Reason, Instant) {
        let reason = self.reasons.entry(failure.message.clone()).or_insert(Reason {
            failure,
            since: now,
            ends,
            warned: false,
            found: true,
            waiting: Vec::new(),
        });
        reason.found = true;
        // A slot that was ours sets our latch.
        let again = now + now.saturating_duration_since(reason.since).clamp(RETRY_AFTER, RETRY_AT_MOST);
        (reason, again)
    }

    /// Says what the look that began at `now` has found, unless it was said before or may be for a moment only.
    pub fn report(&mut self, now: Instant) {
        for reason in self.reasons.values_mut().filter(|reason| reason.found) {
            let lasts = now.saturating_duration_since(reason.since) >= TO_WARN;
            if lasts && !std::mem::replace(&mut reason.warned, true) {
                let message = format!("scheduler: {}{}", reason.failure.message, named(&reason.waiting));
                error::report(PgLogLevel::WARNING, Failure { message, ..reason.failure.clone() });
            }
        }
    }

    /// The look ends: `all_served` where every database that can have a dispatcher has it. Says once that nothing is in the way any more.
    pub fn end(&mut self, all_served: bool) {
        let mut over = false;
        self.reasons.retain(|_, reason| {
            let holds = reason.found || (reason.ends == Ends::AllServed && !all_served);
            over |= !holds && reason.warned;
            holds
        });
        self.owes_the_end |= over;
        let is_short = self.reasons.values().any(|reason| reason.ends == Ends::AllServed && reason.warned);
        if all_served && !is_short && std::mem::take(&mut self.owes_the_end) {
            pgrx::log!("scheduler: every database has its dispatcher again");
        }
    }
}

/// The databases that wait, as the end of a message.
fn named(waiting: &[String]) -> String {
    let names: Vec<String> = waiting.iter().take(MOST_NAMES).map(|name| format!("\"{name}\"")).collect();
    match waiting.len() {
        0 => String::new(),
        count if count > MOST_NAMES => format!(" (waiting: {} and {} more)", names.join(", "), count - MOST_NAMES),
        _ => format!(" (waiting: {})", names.join(", ")),
    }
}
