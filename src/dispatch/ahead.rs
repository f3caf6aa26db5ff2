//! A clock that was ahead for a while: what it has written lies ahead of the clock as it is now. A schedule is silent for as long, until
//! somebody edits it or adopts the database. Then it begins anew: the trigger of `sched.schedule` sees to its definition, and what is here to
//! what is remembered of the ones before.

use std::collections::HashMap;

use pgrx::{PgLogLevel, PgSqlErrorCode};
use scheduler_core::schedule::SkipReason;
use scheduler_core::Instant;

use crate::dispatch::definition_history::BoundedClock;
use crate::pg::error::{self, Failure};
use crate::pg::{role, Session};
use crate::store::schedule::ahead::{self, Beyond};
use crate::store::timer::NewTimer;

/// Puts right what is remembered of the past of timers that begin anew.
pub fn straighten(session: &Session, timers: &[&NewTimer]) {
    let anchors: HashMap<i64, Instant> =
        timers.iter().filter_map(|timer| Some((timer.schedule_id, timer.straightens?))).collect();
    if anchors.is_empty() {
        return;
    }
    let left = |skip: &Beyond| {
        let anchor = anchors.get(&skip.past.schedule_id)?;
        let bounded = BoundedClock::of_past(&skip.past, *anchor).ok()?;
        let rest = bounded.skipped(skip.from().just_before(), skip.past.valid_to, SkipReason::Missed)?;
        Some((rest.to, i64::try_from(rest.count).unwrap_or(i64::MAX)))
    };
    let beyond = ahead::straighten(session, anchors.keys().copied().collect());
    let cuts: Vec<_> = beyond.into_iter().map(|skip| (left(&skip), skip)).map(|(left, skip)| (skip, left)).collect();
    ahead::cut(session, &cuts);
}

/// Says which schedules lie ahead of the clock, and what to do about it, where there are some; until when the last of them does. `whose` they
/// are, or nothing; `before` begins the line.
pub fn report(session: &Session, before: &str, whose: &str, now: Instant) -> Option<Instant> {
    let found = ahead::schedules(session, ahead::horizon(now), role::DISPATCHER, true)?;
    let failure = Failure {
        detail: Some(format!("The last of them is silent until {}.", found.until)),
        ..Failure::new(
            PgSqlErrorCode::ERRCODE_WARNING,
            format!("{before}{}", found.described(whose)),
            "Any sched.alter_schedule has a schedule begin anew at the present time, sched.adopt() all of them.",
        )
    };
    error::report(PgLogLevel::WARNING, failure);
    Some(found.until_at)
}
