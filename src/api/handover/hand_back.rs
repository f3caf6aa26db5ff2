//! `hand_back`: another scheduler fires again what was taken from it.

use std::collections::HashMap;

use pgrx::datum::TimestampWithTimeZone;
use pgrx::pg_sys::Oid;
use pgrx::prelude::*;
use scheduler_core::clock::Timeline;
use scheduler_core::schedule::Ownership;
use scheduler_core::{Clock, Instant, Keyword};

use crate::pg::array::Many;
use crate::pg::convert::{self, required};
use crate::pg::error::{or_raise, Outcome};
use crate::pg::utf8_text::Text;
use crate::pg::zone::ServerZone;
use crate::pg::{role, session, Session};
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
                let schema = source.find(Some(schema), caller)?;
                switch.check_triggers(&schema, caller)?;
                give_back(switch, source, &schema, caller, &some)?;
            }
        }
        Ok(())
    })());
}

/// The plan time by now that waits here, for a run to end or for its delay, which they would not run; and the one that comes next.
fn open_plans(
    session: &Session,
    one: &Candidate,
    timeline: &Timeline<'_, ServerZone>,
    now: Instant,
) -> Outcome<[Option<TimestampWithTimeZone>; 2]> {
    let [buffered, next] = taken::open_plans(session, one.schedule_id);
    let next = convert::optional_instant("next_plan_time", next)?;
    let waits = buffered.or(next.filter(|plan| *plan <= now).map(convert::timestamp));
    // Where a run goes on from whose end the next is to be counted, there is none yet.
    let counted = next.filter(|plan| timeline.counts_from().is_some() && *plan > now);
    let comes = counted.or_else(|| timeline.next_after(now));
    Ok([waits, comes.map(convert::timestamp)])
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
    switch.lock_rows(schema, &ids);
    // What is due by now is ours.
    dispatch_all_due()?;
    let mut next = Vec::new();
    session(|session| {
        for (one, timeline) in some.iter().zip(&timelines) {
            let found = schedule::find(session, &one.name, caller)?;
            let [waits, comes] = open_plans(session, one, timeline, convert::now())?;
            if let Some(plan) = waits.filter(|_| one.enabled) {
                schedule_runs::insert(session, &found, "backfill", vec![plan], caller)?;
            }
            next.extend(comes.filter(|_| one.enabled && one.was_enabled).map(|at| (one.source_id.clone(), at)));
            edit_locked(session, found, caller, |current| {
                Ok(Definition { ownership: Ownership::External.as_str().to_owned(), ..current })
            })?;
        }
        taken::unmark(session, source.name(), &schema.name, &ids);
        Outcome::Ok(())
    })?;
    let on: Vec<String> = some.iter().filter(|one| one.was_enabled).map(|one| one.source_id.clone()).collect();
    switch.set(schema, &on, true);
    switch.begin_with(schema, next, caller)?;
    session(|session| {
        if !taken::is_any(session, source.name(), &schema.name) {
            switch.unguard(session, schema);
        }
    });
    Ok(())
}
