//! Whether another scheduler has run what our rules say, before its schedules are taken over.

use scheduler_core::foreign::comparison::{Difference, Run};
use scheduler_core::{Instant, Keyword};

use crate::pg::convert;
use crate::pg::error::Outcome;
use crate::pg::Session;
use crate::store::handover::taken::Candidate;
use crate::store::handover::ImportedSchedule;

use super::compare::compared;
use super::source::state;

/// How far back, in microseconds: a day.
const DAY: i64 = 86_400_000_000;
/// From when on a run is late.
const TOLERANCE: i64 = 60_000_000;

/// `55000` where in the last day it has not, of all the schedules that share the job of this one.
pub fn check_differences(
    session: &Session,
    one: &Candidate,
    schedules: &[ImportedSchedule],
    theirs: &[Run],
    now: Instant,
) -> Outcome<()> {
    let range = [-DAY, DAY].map(|micros| now.checked_add_micros(micros).unwrap_or(now));
    let mut different = Vec::new();
    for (_, plan_time, verdict, ..) in compared(session, schedules, theirs, (range[0], range[1]), TOLERANCE)? {
        if verdict == Difference::OnlyHere.as_str() || verdict == Difference::OnlyThere.as_str() {
            different.push((verdict, convert::instant("plan_time", plan_time)?));
        }
    }
    let Some((verdict, plan_time)) = different.first() else { return Ok(()) };
    Err(state(
        format!(
            "in the last day {} of \"{}\" had {} differences, the first ({verdict}) at {}",
            one.source,
            one.name,
            different.len(),
            convert::shown_time(convert::timestamp(*plan_time))
        ),
        "Look at them with sched.compare. force => true takes it over nevertheless.",
    ))
}
