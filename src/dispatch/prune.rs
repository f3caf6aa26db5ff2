//! History leaves the ledger and the skips in small steps: one walk over each, then a rest.
//!
//! Ids rise with time, so a walk through the ledger goes on where the last one ended: what it passed was deleted, or stays. The ledger's
//! beginning is full of what was deleted and not yet vacuumed, millions of index entries in a busy queue, and for as long as an old
//! transaction is open. Some of what stays can go later: a run that outlived retention, one that was the newest of its scope. So walks
//! begin anew as well, but seldom where a step of such a walk has kept fires waiting.

use std::time::{Duration, Instant as Moment};

use pgrx::datum::Uuid;
use scheduler_core::Instant;

use crate::guc;
use crate::pg::{session, Session};
use crate::store::alert;
use crate::store::database_clock;
use crate::store::execution::history;
use crate::store::schedule::skipped_plans::{self, SkipCursor};

/// How many rows one step looks at. There are at least ten steps a second where there is something to forget, whatever else there is to
/// do: ten times what ends at 1,000 a second.
const STEP: i64 = 1000;
/// The longest rest between two walks, in microseconds.
const LONGEST_REST: i64 = 3_600_000_000;
/// A step that took longer went past a lot that had gone.
const LONG: Duration = Duration::from_secs(1);
/// After one, so many times as long passes until a walk begins anew.
const SELDOM: u32 = 1000;

/// Where a dispatcher's walk stands.
pub struct Pruner {
    walk: Walk,
    state: State,
    /// The longest step of this walk, if it began anew.
    longest: Option<Duration>,
    /// Until then walks go on where the last one ended.
    goes_on_until: Option<Moment>,
    /// For how long history was to stay when the last walk began.
    retention: i64,
}

enum State {
    /// Since the end of a walk.
    Rests(Instant),
    /// In a walk, whose last step ended at that time.
    Walks(Instant),
}

impl Pruner {
    /// The first walk comes after a rest: a server that has just started has better things to do.
    pub fn new(now: Instant) -> Pruner {
        Pruner {
            walk: Walk { last: 0, skips: None },
            state: State::Rests(now),
            longest: None,
            goes_on_until: None,
            retention: guc::history_retention(),
        }
    }

    /// When there is something to do, by what the setting says now.
    pub fn next_step(&self) -> Instant {
        match self.state {
            // A setting that was lowered leaves much to be forgotten.
            State::Rests(since) if guc::history_retention() < self.retention => since,
            State::Rests(since) => rest(since),
            State::Walks(since) => since,
        }
    }

    /// One step, if it is time; how many rows went.
    pub fn step(&mut self, session: &Session) -> usize {
        let now = database_clock::now();
        if now < self.next_step() {
            return 0;
        }
        let began = Moment::now();
        if matches!(self.state, State::Rests(_)) {
            self.begin(began);
        }
        let step = self.walk.step(session, now, STEP);
        self.longest = self.longest.map(|longest| longest.max(began.elapsed()));
        self.state = if step.is_last { State::Rests(now) } else { State::Walks(database_clock::now()) };
        usize::try_from(step.executions + step.alerts).unwrap_or(0)
    }

    /// Begins a walk: anew, but for some time after one that had a long step.
    fn begin(&mut self, now: Moment) {
        let retention = guc::history_retention();
        if retention < self.retention {
            self.goes_on_until = None;
        }
        self.retention = retention;
        if let Some(longest) = self.longest.take().filter(|longest| *longest > LONG) {
            self.goes_on_until = now.checked_add(longest.saturating_mul(SELDOM));
        }
        if self.goes_on_until.is_none_or(|until| until <= now) {
            (self.walk.last, self.longest) = (0, Some(Duration::ZERO));
        }
        self.walk.skips = Some(SkipCursor::START);
    }
}

/// How far a walk has come through the ledger and the skips.
struct Walk {
    last: u128,
    skips: Option<SkipCursor>,
}

/// What a step of a walk has deleted.
struct WalkStep {
    executions: i64,
    alerts: i64,
    /// Nothing is left to look at.
    is_last: bool,
}

impl Walk {
    /// Goes on, past so many executions at most.
    fn step(&mut self, session: &Session, now: Instant, rows: i64) -> WalkStep {
        let limit = now.checked_add_micros(-guc::history_retention()).unwrap_or(Instant::MIN);
        let uuid = |number: u128| Uuid::from_bytes(number.to_be_bytes());
        self.skips = self.skips.and_then(|cursor| skipped_plans::prune(session, cursor, limit, STEP));
        let alerts = i64::try_from(alert::prune(session, limit, STEP)).unwrap_or(STEP);
        let step = history::prune(session, uuid(self.last), uuid(first_id_at(limit)), limit, rows);
        self.last = step.last.map_or(self.last, |last| u128::from_be_bytes(*last.as_bytes()));
        let is_last = step.seen < rows && alerts < STEP && self.skips.is_none();
        WalkStep { executions: step.gone, alerts, is_last }
    }
}

/// Deletes what retention no longer keeps, at most so many executions, in this transaction; how many executions went.
pub fn prune_now(most: i64) -> i64 {
    let (now, mut gone) = (database_clock::now(), 0);
    let mut walk = Walk { last: 0, skips: Some(SkipCursor::START) };
    loop {
        let step = session(|session| walk.step(session, now, STEP.min(most - gone)));
        gone += step.executions;
        if gone >= most || step.is_last {
            return gone;
        }
        pgrx::check_for_interrupts!();
    }
}

/// The end of a rest that began at `since`.
fn rest(since: Instant) -> Instant {
    since.checked_add_micros((guc::history_retention() / 10).clamp(1_000_000, LONGEST_REST)).unwrap_or(Instant::MAX)
}

/// The least UUID version 7 of an instant: its first 48 bits are Unix milliseconds (RFC 9562).
fn first_id_at(limit: Instant) -> u128 {
    let milliseconds = (limit.as_micros() - Instant::UNIX_EPOCH.as_micros()).max(0) / 1000;
    u128::from(milliseconds.unsigned_abs()) << 80
}
