//! `take_over`: who fires a schedule changes in one transaction, on both sides.

use std::collections::{BTreeMap, HashMap, HashSet};

use pgrx::datum::TimestampWithTimeZone;
use pgrx::pg_sys::Oid;
use pgrx::prelude::*;
use pgrx::PgSqlErrorCode;
use scheduler_core::clock::{RunEdge, Timeline};
use scheduler_core::foreign::comparison::Run;
use scheduler_core::schedule::Ownership;
use scheduler_core::{Clock, Instant, Keyword};

use crate::pg::array::Many;
use crate::pg::convert::{self, required};
use crate::pg::error::{or_raise, warn, Failure, Outcome};
use crate::pg::utf8_text::Text;
use crate::pg::zone::ServerZone;
use crate::pg::{role, session, Session};
use crate::store::database_clock;
use crate::store::handover::foreign::ForeignSchema;
use crate::store::handover::switch::Switch;
use crate::store::handover::taken::{self, Candidate};
use crate::store::handover::{self, ImportedSchedule};
use crate::store::schedule::Definition;

use crate::api::result::TableIterator;
use crate::api::schedule;
use crate::api::schedule_edit::edit_locked;
use crate::api::schedule_runs;

use super::before::first_part;
use super::candidates::{by_schema, locked, names};
use super::compare::by_job;
use super::differences::check_differences;
use super::known::known;
use super::moment::{around, bound, wait_for_a_moment};
use super::source::{add_reported, fingerprint, state, Runs, Source};

/// How far back runs of theirs are looked at, in microseconds: a day.
const DAY: i64 = 86_400_000_000;
/// A clock of theirs may be so much ahead of what it writes down.
const SLACK: i64 = 1_000_000;

#[pg_extern(schema = "sched", volatile, parallel_unsafe)]
#[allow(clippy::type_complexity)]
fn take_over(
    source: Option<Text>,
    schedule_names: default!(Option<Many<Text>>, "NULL"),
    force: default!(Option<bool>, "false"),
) -> TableIterator<
    'static,
    (
        name!(schedule_name, String),
        name!(last_theirs, Option<TimestampWithTimeZone>),
        name!(first_ours, Option<TimestampWithTimeZone>),
    ),
> {
    let rows = or_raise((|| {
        let source = known(&required("source", source)?)?;
        let switch = source.switch();
        let names = names(schedule_names)?;
        let force = required("force", force)?;
        let caller = role::caller();
        let found = locked(Some(source.name()), names.as_deref(), caller)?;
        let all = names.is_none();
        if let Some(taken) = found.iter().find(|one| one.is_owned && !all) {
            return Err(state(
                format!("schedule \"{}\" is fired here already", taken.name),
                "Take over what is external: sched.schedules says who fires what.",
            ));
        }
        let mut rows = Vec::new();
        for (schema, some) in by_schema(found.into_iter().filter(|one| !one.is_owned)) {
            let schema = match source.find(Some(schema), caller) {
                // What others have imported from their own tables, of which nobody asked by name, is theirs to take over.
                Err(_) if all && !some.iter().any(|one| one.is_owned_by(caller)) => continue,
                schema => schema?,
            };
            switch.check_guard(&schema)?;
            switch.check_triggers(&schema, caller)?;
            rows.extend(TakeOver { source, switch, schema: &schema, caller, force, all }.run(&some)?);
        }
        rows.sort_by(|a, b| a.0.cmp(&b.0));
        Ok(rows)
    })());
    TableIterator::new(rows)
}

struct TakeOver<'a> {
    source: &'static dyn Source,
    switch: &'static Switch,
    schema: &'a ForeignSchema,
    caller: Oid,
    force: bool,
    /// Nobody has named schedules: one that cannot be taken over now is left out.
    all: bool,
}

type TakenRow = (String, Option<TimestampWithTimeZone>, Option<TimestampWithTimeZone>);

impl TakeOver<'_> {
    fn run(&self, some: &[Candidate]) -> Outcome<Vec<TakenRow>> {
        let clocks: Vec<(Clock, ServerZone, Instant)> = some.iter().map(bound).collect::<Outcome<_>>()?;
        let timelines: Vec<_> = clocks.iter().map(|(clock, zone, anchor)| clock.bind(zone, *anchor)).collect();
        let ids: Vec<String> = some.iter().map(|one| one.source_id.clone()).collect();
        let runs = self.runs(some, &timelines, database_clock::now())?;
        wait_for_a_moment(self.switch, |now| {
            let counted = timelines.iter().any(|timeline| timeline.counts_from().is_some());
            let runs = if counted { self.runs(some, &timelines, now)? } else { HashMap::new() };
            let last = |id: &String| runs.get(first_part(id)).and_then(|runs| runs.last()).map(|run| run.began);
            Ok(timelines
                .iter()
                .zip(some)
                .filter(|(_, one)| one.enabled)
                .map(|(timeline, one)| around(timeline, last(&one.source_id), now))
                .collect())
        })?;
        drop(runs);
        self.switch.lock_writes(self.schema, self.caller)?;
        let states: HashMap<String, bool> = self.switch.lock_rows(self.schema, &ids).into_iter().collect();
        self.check_rows(some, &states)?;
        self.switch.check_memory(self.schema, &ids)?;
        let busy = self.switch.running(self.schema, &ids, self.caller)?;
        let (left, taken): (Vec<usize>, Vec<usize>) =
            (0..some.len()).partition(|place| some.get(*place).is_some_and(|one| busy.contains(&one.source_id)));
        if let Some(one) = left.first().filter(|_| !self.all).and_then(|place| some.get(*place)) {
            return Err(self.goes_on(&one.name));
        }
        let is_on: HashSet<String> = self.switch.enabled_now(self.schema, &ids).into_iter().collect();
        let now = database_clock::now();
        let runs = self.runs(some, &timelines, now)?;
        let imported = session(|session| handover::read(session, self.source.name(), &self.schema.name));
        let look = Look { jobs: by_job(imported, |_| true), runs, is_on, now };
        let mut rows = Vec::with_capacity(some.len());
        for place in &left {
            let Some(one) = some.get(*place) else { continue };
            warn(Some(Failure { code: PgSqlErrorCode::ERRCODE_WARNING, ..self.goes_on(&one.name) }));
            let last = self.last_run(one, &look)?;
            rows.push((one.name.clone(), last.map(|run| convert::timestamp(run.began)), None));
        }
        let mut marks = Vec::with_capacity(taken.len());
        for place in &taken {
            let (Some(one), Some(timeline)) = (some.get(*place), timelines.get(*place)) else { continue };
            rows.push(self.take(one, timeline, &look)?);
            marks.push((one.source_id.clone(), states.get(&one.source_id).copied().unwrap_or(false)));
        }
        if marks.is_empty() {
            return Ok(rows);
        }
        let ids: Vec<String> = marks.iter().map(|(id, _)| id.clone()).collect();
        session(|session| taken::mark(session, self.source.name(), &self.schema.name, &marks, now));
        // A table of which a row was changed twice in one transaction may have checks to come, and takes no trigger then.
        session(|session| self.switch.guard(session, self.schema));
        self.switch.off(self.schema, &ids);
        Ok(rows)
    }

    /// `55P03`.
    fn goes_on(&self, name: &str) -> Failure {
        Failure::new(
            PgSqlErrorCode::ERRCODE_LOCK_NOT_AVAILABLE,
            format!("a run of \"{name}\" is going on in {}, or about to begin", self.source.name()),
            "Try again when it has ended.",
        )
    }

    /// Their last run. One that has not run for long is not among those of the last plan times.
    fn last_run(&self, one: &Candidate, look: &Look) -> Outcome<Option<Run>> {
        match look.runs.get(first_part(&one.source_id)).and_then(|runs| runs.last()) {
            None => self.switch.newest(self.schema, &one.source_id, self.caller),
            Some(last) => Ok(Some(*last)),
        }
    }

    /// Has one schedule fire here.
    fn take(&self, one: &Candidate, timeline: &Timeline<'_, ServerZone>, look: &Look) -> Outcome<TakenRow> {
        let job = first_part(&one.source_id);
        if !self.force {
            let schedules = look.jobs.get(job).map_or(&[][..], Vec::as_slice);
            let theirs = look.runs.get(job).map_or(&[][..], Vec::as_slice);
            session(|session| check_differences(session, one, schedules, theirs, look.now))?;
        }
        let last = self.last_run(one, look)?;
        // What was switched off there since the import is off here too.
        let enabled = one.enabled && look.is_on.contains(&one.source_id);
        let open = last
            .filter(|_| enabled)
            .map_or(Open::default(), |last| open_since(timeline, last, look.now, self.switch.written_within));
        session(|session| self.own(session, one, enabled, open))?;
        let comes = || timeline.next_after(open.counts_from.unwrap_or(look.now));
        let first = if enabled { open.missed.or_else(comes) } else { None };
        let time = |at: Option<Instant>| at.map(convert::timestamp);
        Ok((one.name.clone(), time(last.map(|run| run.began)), time(first)))
    }

    /// Runs of theirs, also reported ones, from the plan time before last of each on, and of the last day at least; in order.
    fn runs(&self, some: &[Candidate], timelines: &[Timeline<'_, ServerZone>], now: Instant) -> Outcome<Runs> {
        let plus = |at: Instant, micros| at.checked_add_micros(micros).unwrap_or(Instant::MIN);
        let day_ago = plus(now, -DAY);
        let before = |timeline: &Timeline<'_, ServerZone>| {
            if timeline.counts_from().is_some() {
                return None;
            }
            timeline.previous_at_or_before(now).and_then(|plan| timeline.previous_at_or_before(plan.just_before()))
        };
        let from = timelines.iter().filter_map(before).min().map_or(day_ago, |at| plus(at, -SLACK).min(day_ago));
        let to = now.checked_add_micros(DAY).unwrap_or(Instant::MAX);
        let mut runs = self.source.runs(self.schema, from, to, self.caller)?;
        for one in some {
            let fires = session(|session| taken::reported_fires(session, one.schedule_id, from, to));
            if fires.is_empty() {
                continue;
            }
            let theirs = runs.entry(first_part(&one.source_id).to_owned()).or_default();
            add_reported(theirs, fires);
        }
        Ok(runs)
    }

    /// Their rows are there and say what they said when they were imported.
    fn check_rows(&self, some: &[Candidate], states: &HashMap<String, bool>) -> Outcome<()> {
        let said: HashMap<String, String> =
            self.source.rows(self.schema).into_iter().map(|row| (row.id, fingerprint(&row.said))).collect();
        for one in some {
            let found = said.get(&one.source_id).filter(|_| states.contains_key(&one.source_id));
            if found != Some(&one.fingerprint) {
                let what = if found.is_some() { "was edited" } else { "has gone" };
                return Err(state(
                    format!(
                        "{} of {} {what} since it was imported as schedule \"{}\"",
                        one.source_id,
                        self.source.name(),
                        one.name
                    ),
                    "Import it again, and look what has changed: sched.import_from.",
                ));
            }
        }
        Ok(())
    }

    /// Has a schedule fire here; what fell due since their last run is fired once.
    fn own(&self, session: &Session, one: &Candidate, enabled: bool, open: Open) -> Outcome<()> {
        let found = schedule::find(session, &one.name, self.caller)?;
        edit_locked(session, found, self.caller, |current| {
            let ownership = Ownership::Owned.as_str().to_owned();
            Ok(Definition { ownership, enabled: current.enabled && enabled, ..current })
        })?;
        if let Some(plan) = open.missed {
            let found = schedule::find(session, &one.name, self.caller)?;
            schedule_runs::insert(session, &found, "backfill", vec![convert::timestamp(plan)], self.caller)?;
        }
        if let Some(at) = open.counts_from {
            taken::count_from(session, one.schedule_id, at);
        }
        Ok(())
    }
}

/// What is known of theirs under the locks.
struct Look {
    jobs: BTreeMap<String, Vec<ImportedSchedule>>,
    runs: Runs,
    is_on: HashSet<String>,
    now: Instant,
}

/// What they have left to be done.
#[derive(Clone, Copy, Default)]
struct Open {
    /// The latest plan time that they have not run.
    missed: Option<Instant>,
    /// Of a clock that counts from runs, the run of theirs from which the next one counts.
    counts_from: Option<Instant>,
}

/// What is left after their last run: the latest plan time by now. Where they may have run it and not written that down yet, there is none but
/// after an earlier one that they have not run either.
fn open_since(timeline: &Timeline<'_, ServerZone>, last: Run, now: Instant, written_within: i64) -> Open {
    let Some(written_by) = now.checked_add_micros(-written_within) else { return Open::default() };
    let Some(edge) = timeline.counts_from() else {
        let after = last.began.checked_add_micros(SLACK).unwrap_or(last.began);
        let surely = timeline.previous_at_or_before(written_by).filter(|plan| *plan > after);
        return Open { missed: surely.and_then(|_| timeline.previous_at_or_before(now)), counts_from: None };
    };
    let mut run = match edge {
        RunEdge::Start => last.began,
        RunEdge::End => last.ended.unwrap_or(last.began),
    };
    let next = timeline.next_after(run);
    if next.is_some_and(|next| next <= written_by) {
        return Open { missed: next, counts_from: None };
    }
    while let Some(next) = timeline.next_after(run).filter(|next| *next <= now && *next > run) {
        run = next;
    }
    Open { missed: None, counts_from: Some(run) }
}
