//! A schedule's row → the core's types. Everything that can be wrong with a row is found here, as the reason for parking it:
//! a superuser may have written anything into it.

use std::cell::RefCell;
use std::collections::HashMap;
use std::rc::Rc;

use pgrx::datum::Interval;
use scheduler_core::schedule::{CatchUp, Overlap, Policy, Rearm};
use scheduler_core::{Clock, Instant, Keyword};

use crate::guc;
use crate::pg::error::{Failure, Outcome};
use crate::pg::zone::ServerZone;
use crate::pg::{convert, role};
use crate::store::timer::ScheduleRow;

/// What one schedule may run in one tick.
pub const MAX_PLANS_PER_TICK: usize = 10_000;

/// A schedule that can be asked what it does next.
pub struct CompiledSchedule {
    /// Its policies.
    pub policy: Policy,
    /// Its clock.
    pub clock: Rc<Clock>,
    /// The zone of its clock.
    pub zone: ServerZone,
    /// The anchor of its clock.
    pub anchor: Instant,
}

impl CompiledSchedule {
    /// Reads a row; the error says why the schedule cannot be used.
    pub fn compile(schedule_id: i64, row: &ScheduleRow) -> Outcome<CompiledSchedule> {
        CompiledSchedule::check_job(row)?;
        CompiledSchedule::compile_without_job(schedule_id, row)
    }

    /// Whether its job can be run; the error says why not.
    pub fn check_job(row: &ScheduleRow) -> Outcome<()> {
        match row.job_owner {
            None => Err(Failure::unknown("job", &row.job_name, "")),
            Some(owner) if !role::exists(owner) => {
                let message = format!("the owner of job \"{}\" was dropped", row.job_name);
                Err(Failure::invalid(message, ""))
            }
            Some(_) => Ok(()),
        }
    }

    /// Reads what the schedule itself says, whatever became of its job.
    pub fn compile_without_job(schedule_id: i64, row: &ScheduleRow) -> Outcome<CompiledSchedule> {
        row.previous_keys.check()?;
        let wait = |argument, value: Interval| convert::duration(argument, value, convert::Zero::Allowed);
        Ok(CompiledSchedule {
            policy: Policy {
                catch_up: catch_up_of(&row.catch_up)?,
                window: convert::optional_duration("catch_up_window", row.catch_up_window, convert::Zero::Refused)?,
                misfire_grace: guc::misfire_grace(),
                max_plans_per_tick: usize::try_from(row.max_plans_per_tick)
                    .map_or(1, |most| most.min(MAX_PLANS_PER_TICK)),
                rearm: rearm_of(&row.rearm)?,
                overlap: overlap_of(&row.overlap)?,
                delay: wait("delay", row.delay)?,
                jitter: wait("jitter", row.jitter)?,
                jitter_seed: schedule_id.cast_unsigned(),
                starts_at: convert::optional_instant("starts_at", row.starts_at)?,
                ends_at: convert::optional_instant("ends_at", row.ends_at)?,
                baseline: row.baseline_at,
            },
            clock: parsed(&row.clock)?,
            zone: ServerZone::stored(&row.time_zone)?,
            anchor: row.created_at,
        })
    }

    /// Whether runs of the schedule have to be awaited.
    pub fn tracks_runs(&self) -> bool {
        self.policy.tracks_runs()
    }
}

/// The same by the row alone, which may hold anything.
pub fn waits_for_runs(row: &ScheduleRow) -> bool {
    row.waits_for_runs()
}

/// How many clocks are kept, and how long their texts are at most.
const KEPT: (usize, usize) = (256, 200);

thread_local! {
    /// Clocks by their text: most schedules share a few.
    static CLOCKS: RefCell<HashMap<String, Rc<Clock>>> = RefCell::default();
}

/// A clock's text as the core has it.
pub fn parsed(text: &str) -> Outcome<Rc<Clock>> {
    if let Some(known) = CLOCKS.with_borrow(|clocks| clocks.get(text).cloned()) {
        return Ok(known);
    }
    let clock = Rc::new(convert::clock(text)?);
    let (count, length) = KEPT;
    if text.len() <= length {
        CLOCKS.with_borrow_mut(|clocks| {
            if clocks.len() >= count {
                clocks.clear();
            }
            clocks.insert(text.to_owned(), Rc::clone(&clock));
        });
    }
    Ok(clock)
}

fn choice<T: Keyword>(argument: &str, value: &str) -> Outcome<T> {
    T::parse(value).ok_or_else(|| {
        Failure::invalid(
            format!("unknown {argument} \"{}\"", convert::shown(value)),
            format!("Use one of: {}.", T::list()),
        )
    })
}

/// `catch_up` as text → the core's type; `22023`.
pub fn catch_up_of(value: &str) -> Outcome<CatchUp> {
    choice("catch_up", value)
}

/// `rearm` as text → the core's type; `22023`.
pub fn rearm_of(value: &str) -> Outcome<Rearm> {
    choice("rearm", value)
}

/// `overlap` as text → the core's type; `22023`.
pub fn overlap_of(value: &str) -> Outcome<Overlap> {
    choice("overlap", value)
}
