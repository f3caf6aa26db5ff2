//! `hand_back`: another scheduler fires again what was taken from it.

use std::collections::{HashMap, HashSet};

use pgrx::datum::TimestampWithTimeZone;
use pgrx::pg_sys::Oid;
use pgrx::prelude::*;
use scheduler_core::clock::Timeline;
use scheduler_core::schedule::Ownership;
use scheduler_core::{Clock, Instant, Keyword};

use crate::pg::array::Many;
use crate::pg::convert::{self, required};
use crate::pg::error::{or_raise, Failure, Outcome};
use crate::pg::utf8_text::Text;
use crate::pg::zone::ServerZone;
use crate::pg::{role, session, Session};
use crate::store::database_clock;
use crate::store::handover::foreign::ForeignSchema;
use crate::store::handover::switch::Switch;
use crate::store::handover::taken::{self, Candidate};
use crate::store::schedule::Definition;

use crate::api::dispatch::dispatch_all_due;
use crate::api::schedule;
use crate::api::schedule_edit::edit_locked;
use crate::api::schedule_runs;

use super::candidates::{by_schema, locked, names};
use super::known::known;
use super::moment::{around, bound, wait_for_a_moment};
use super::source::{state, Source};

#[pg_extern(schema = "sched", volatile, parallel_unsafe)]
fn hand_back(schedule_names: Option<Many<Text>>) {
    or_raise((|| {
        let names = names(Some(required("schedule_names", schedule_names)?))?;
        let caller = role::caller();
        let found = locked(None, names.as_deref(), caller)?;
        if let Some(other) = found.iter().find(|one| !one.taken) {
            return Err(state(
                format!("schedule \"{}\" was not taken over", other.name),
                "sched.take_over does that. To have it fire here no longer, pause or drop it.",
            ));
        }
        let mut sources: HashMap<String, Vec<Candidate>> = HashMap::new();
        for one in found {
            sources.entry(one.source.clone()).or_default().push(one);
        }
        for (name, some) in sources {
            let source = known(&name)?;
            let switch = source.switch();
            for (schema, some) in by_schema(some.into_iter()) {
                if let Some(one) = some.first().filter(|_| !switch.is_there(&schema)) {
                    return Err(gone(source, one));
                }
                let schema = source.find(Some(schema), caller)?;
                switch.check_triggers(&schema, caller)?;
                give_back(switch, source, &schema, caller, &some)?;
            }
        }
        Ok(())
    })());
}

/// `55000`: there is nothing there to be switched on again.
fn gone(source: &dyn Source, one: &Candidate) -> Failure {
    let (id, source, name) = (&one.source_id, source.name(), &one.name);
    state(
        format!("schedule \"{name}\" cannot be handed back: {id} of {source}, from which it was taken over, is not there any more"),
        "Drop the schedule (sched.drop_schedule), or keep it: it goes on here.",
    )
}

/// What a schedule has left to another scheduler.
struct OpenPlans {
    /// The plan time by now that waits here, for a run to end or for its delay, which they would not run.
    waits: Option<TimestampWithTimeZone>,
    /// The one that comes next.
    comes: Option<TimestampWithTimeZone>,
    /// The last one by now, or, of a clock that counts from runs, the time from which it counts.
    due_last: Option<TimestampWithTimeZone>,
}

fn open_plans(
    session: &Session,
    one: &Candidate,
    timeline: &Timeline<'_, ServerZone>,
    now: Instant,
) -> Outcome<OpenPlans> {
    let [buffered, next, counts_from] = taken::open_plans(session, one.schedule_id);
    let next = convert::optional_instant("next_plan_time", next)?;
    let waits = buffered.or(next.filter(|plan| *plan <= now).map(convert::timestamp));
    let counts = timeline.counts_from().is_some();
    // Where a run goes on from whose end the next is to be counted, there is none yet.
    let counted = next.filter(|plan| counts && *plan > now);
    let comes = counted.or_else(|| timeline.next_after(now)).map(convert::timestamp);
    let due_last = match timeline.previous_at_or_before(now) {
        Some(plan) => Some(convert::timestamp(plan)),
        // What has passed while it was off here is no matter of theirs either.
        None if counts && one.enabled => counts_from,
        None if counts => Some(convert::timestamp(now)),
        None => None,
    };
    Ok(OpenPlans { waits, comes, due_last })
}

/// Has another scheduler run again what was taken from it, as it was.
fn give_back(
    switch: &'static Switch,
    source: &'static dyn Source,
    schema: &ForeignSchema,
    caller: Oid,
    some: &[Candidate],
) -> Outcome<()> {
    let clocks: Vec<(Clock, ServerZone, Instant)> = some.iter().map(bound).collect::<Outcome<_>>()?;
    let timelines: Vec<_> = clocks.iter().map(|(clock, zone, anchor)| clock.bind(zone, *anchor)).collect();
    wait_for_a_moment(switch, |now| {
        let of_enabled = timelines.iter().zip(some).filter(|(_, one)| one.enabled);
        Ok(of_enabled.map(|(timeline, _)| around(timeline, None, now)).collect())
    })?;
    let ids: Vec<String> = some.iter().map(|one| one.source_id.clone()).collect();
    switch.lock_writes(schema, caller)?;
    let there: HashSet<String> = switch.lock_rows(schema, &ids).into_iter().map(|(id, _)| id).collect();
    if let Some(one) = some.iter().find(|one| !there.contains(&one.source_id)) {
        return Err(gone(source, one));
    }
    // What is due by now is ours.
    dispatch_all_due()?;
    let (mut next, mut on) = (Vec::new(), Vec::new());
    session(|session| {
        for (one, timeline) in some.iter().zip(&timelines) {
            let found = schedule::find(session, &one.name, caller)?;
            let now = database_clock::now();
            let OpenPlans { waits, comes, due_last } = open_plans(session, one, timeline, now)?;
            if let Some(plan) = waits.filter(|_| one.enabled) {
                schedule_runs::insert(session, &found, "backfill", vec![plan], caller)?;
            }
            // What has had its only time here would be run there once more.
            if let Some(at) = comes.filter(|_| one.was_enabled) {
                next.push((one.source_id.clone(), at));
                on.push((one.source_id.clone(), due_last));
            }
            edit_locked(session, found, caller, |current| {
                Ok(Definition { ownership: Ownership::External.as_str().to_owned(), ..current })
            })?;
        }
        taken::unmark(session, source.name(), &schema.name, &ids);
        Outcome::Ok(())
    })?;
    switch.on(schema, on);
    switch.begin_with(schema, next, caller)?;
    session(|session| {
        if !taken::is_any(session, source.name(), &schema.name) {
            switch.unguard(session, schema);
        }
    });
    Ok(())
}
