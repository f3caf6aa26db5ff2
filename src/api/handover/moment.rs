//! When a schedule may change hands: far enough from its plan times that nobody has begun one and not written that down yet.

use std::time::Duration;

use scheduler_core::clock::Timeline;
use scheduler_core::{Clock, Instant};

use crate::pg::commit_deadline::commit_by;
use crate::pg::convert;
use crate::pg::error::Outcome;
use crate::pg::zone::ServerZone;
use crate::store::database_clock;
use crate::store::handover::switch::{moment, Moment, Switch};
use crate::store::handover::taken::Candidate;

use super::source::state;

/// How long to wait at most for a moment that is far enough from all plan times.
const LONGEST_WAIT: i64 = 70_000_000;

/// A schedule's clock, its zone and its anchor.
pub fn bound(one: &Candidate) -> Outcome<(Clock, ServerZone, Instant)> {
    let clock = convert::clock(&one.clock)?;
    let zone = ServerZone::stored(&one.time_zone)?;
    Ok((clock, zone, convert::instant("created_at", one.created_at)?))
}

/// The plan times around a moment. Of a clock that counts from runs: by the last of theirs.
pub fn around(
    timeline: &Timeline<'_, ServerZone>,
    last: Option<Instant>,
    now: Instant,
) -> (Option<Instant>, Option<Instant>) {
    if timeline.counts_from().is_some() {
        return (last, last.and_then(|last| timeline.next_after(last)).filter(|next| *next > now));
    }
    (timeline.previous_at_or_before(now), timeline.next_after(now))
}

/// Waits until this moment is far enough from all plan times, and has the transaction fail that does not commit before the next comes near.
pub fn wait_for_a_moment(
    switch: &Switch,
    plans: impl Fn(Instant) -> Outcome<Vec<(Option<Instant>, Option<Instant>)>>,
) -> Outcome<()> {
    let began = database_clock::now();
    loop {
        pgrx::check_for_interrupts!();
        let now = database_clock::now();
        match moment(switch, &plans(now)?, now) {
            Moment::Good(until) => {
                until.into_iter().for_each(commit_by);
                return Ok(());
            }
            Moment::Wait(until) if until.as_micros() - began.as_micros() <= LONGEST_WAIT => {
                std::thread::sleep(Duration::from_millis(20));
            }
            Moment::Wait(_) => {
                return Err(state(
                    "there is no moment that is far enough from the plan times of all of these schedules",
                    "Take fewer at a time. One that comes every few seconds has to be switched off there before, and let run out; sched.resume has it fire here then.",
                ));
            }
        }
    }
}
