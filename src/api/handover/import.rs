//! `import_from`: the rows of another scheduler as schedules that fire nothing yet, and later calls as a comparison with what was imported.

use std::collections::{HashMap, HashSet};

use pgrx::pg_sys::Oid;
use pgrx::prelude::*;
use scheduler_core::schedule::Ownership;
use scheduler_core::{Instant, Keyword};

use crate::pg::array::Many;
use crate::pg::convert::{self, required};
use crate::pg::error::{or_raise, Failure, Outcome};
use crate::pg::jsonb::Jsonb;
use crate::pg::utf8_text::Text;
use crate::pg::{role, session, Session};
use crate::store::database_clock;
use crate::store::handover::foreign::ForeignSchema;
use crate::store::handover::{self, Imported, ImportedSchedule};
use crate::store::schedule::{bulk, Definition};
use crate::store::{identity, job, schedule as schedules, shard};

use crate::api::job::{self as jobs, Runs};
use crate::api::result::TableIterator;
use crate::api::schedule::{armed_as_its_clock_says, armed_as_its_new_clock_says, check_keys, defaults};
use crate::api::schedule_edit::edit_locked;

use super::before::{first_part, is_of, is_same, jobs_of, plainly, ResultRow};
use super::clocks::Clocks;
use super::elsewhere::in_database;
use super::known::known;
use super::ready::{is_still_theirs, known_job, name_apart, Judged, Ready};
use super::source::{fingerprint, ForeignRow, Place, Source, Wanted};

#[pg_extern(schema = "sched", volatile, parallel_unsafe)]
#[allow(clippy::type_complexity)]
fn import_from(
    source: Option<Text>,
    source_schema: default!(Option<Text>, "NULL"),
    only_ids: default!(Option<Many<Text>>, "NULL"),
    prefix: default!(Option<Text>, "''"),
    dry_run: default!(Option<bool>, "false"),
) -> TableIterator<
    'static,
    (
        name!(source_id, String),
        name!(schedule_name, Option<String>),
        name!(clock, Option<String>),
        name!(time_zone, Option<String>),
        name!(job_name, Option<String>),
        name!(verdict, &'static str),
        name!(note, Option<String>),
    ),
> {
    let rows = or_raise((|| {
        let source = known(&required("source", source)?)?;
        let named = source_schema.map(|name| convert::name("source_schema", Some(name))).transpose()?;
        let only: Option<HashSet<String>> = only_ids
            .map(|ids| {
                ids.into_iter().map(|id| Ok(required("an element of only_ids", id)?.into())).collect::<Outcome<_>>()
            })
            .transpose()?;
        let prefix: String = required("prefix", prefix)?.into();
        let dry_run = required("dry_run", dry_run)?;
        let caller = role::caller();
        let schema = source.find(named, caller)?;
        if !dry_run {
            // Before anything of theirs is locked or read: who takes over or hands back has both in this order.
            handover::lock(source.name(), &schema.name);
        }
        let mut rows = source.rows(&schema);
        if let Some(only) = &only {
            rows.retain(|row| is_one_of(only, &row.id));
        }
        let import = Import { source, schema: &schema, prefix, only, dry_run, caller, now: database_clock::now() };
        session(|session| Ok(import.run(session, rows)))
    })());
    TableIterator::new(rows)
}

/// An id is named whole, or by its first part (`job` of `job/schedule`).
fn is_one_of(only: &HashSet<String>, id: &str) -> bool {
    only.contains(id) || only.contains(first_part(id))
}

struct Import<'a> {
    source: &'static dyn Source,
    schema: &'a ForeignSchema,
    prefix: String,
    only: Option<HashSet<String>>,
    dry_run: bool,
    caller: Oid,
    now: Instant,
}

impl Import<'_> {
    fn run(&self, session: &Session, rows: Vec<ForeignRow>) -> Vec<ResultRow> {
        if !self.dry_run {
            handover::forget_dropped(session, self.source.name(), &self.schema.name);
        }
        let mut all = handover::read(session, self.source.name(), &self.schema.name);
        all.retain(|one| !self.is_of_a_table_that_has_gone(one));
        let ours = jobs_of(&all);
        let mut known: HashMap<String, Imported> =
            all.into_iter().filter(|one| one.schedule.is_some()).map(|one| (one.source_id.clone(), one)).collect();
        let (mut results, mut new) = (Vec::with_capacity(rows.len()), Vec::new());
        let mut clocks = Clocks::default();
        for row in rows {
            pgrx::check_for_interrupts!();
            let before = known.remove(&row.id);
            let id = row.id.clone();
            if before.as_ref().is_some_and(|before| !is_of(before, self.caller)) {
                let note = "it was imported before, as a schedule of another role".to_owned();
                results.push(plainly(id, None, "unsupported", Some(note)));
                continue;
            }
            if before.as_ref().is_some_and(|before| is_same(before, &row)) {
                results.push(plainly(id, before.as_ref(), "same", None));
                continue;
            }
            let result = match self.judge(row, &mut clocks) {
                Judged::Elsewhere(place) => plainly(id, before.as_ref(), "elsewhere", Some(place)),
                Judged::Unsupported(reason) => plainly(id, before.as_ref(), "unsupported", Some(reason)),
                Judged::Ready(ready) => match before {
                    Some(before) => match shard::reason(session, ready.schedule.scope()) {
                        None => self.again(session, *ready, &before),
                        note @ Some(_) => plainly(id, Some(&before), "elsewhere", note),
                    },
                    None => {
                        new.push((results.len(), ready));
                        // Its place among the results.
                        plainly(id, None, "imported", None)
                    }
                },
            };
            results.push(result);
        }
        for (place, result) in self.create(session, new, &ours) {
            if let Some(slot) = results.get_mut(place) {
                *slot = result;
            }
        }
        let mut removed: Vec<Imported> = known.into_values().filter(|gone| self.may_tell(gone)).collect();
        removed.sort_by(|a, b| a.source_id.cmp(&b.source_id));
        results.extend(removed.into_iter().map(|gone| {
            let note = format!("it is gone in {}; its schedule is left as it was", self.source.name());
            plainly(gone.source_id.clone(), Some(&gone), "removed", Some(note))
        }));
        results
    }

    /// A role's own table speaks for that role alone: what was imported as another's came from one that had this name before.
    fn is_of_a_table_that_has_gone(&self, one: &Imported) -> bool {
        let owner = one.schedule.as_ref().and_then(|schedule| schedule.owner);
        !self.schema.speaks_for_all && owner.is_some_and(|owner| owner != self.caller)
    }

    /// Whether the caller may hear that a row is gone: one of his own, since he sees no others there either.
    fn may_tell(&self, gone: &Imported) -> bool {
        self.only.as_ref().is_none_or(|only| is_one_of(only, &gone.source_id)) && is_of(gone, self.caller)
    }

    /// What a row can be here.
    fn judge(&self, row: ForeignRow, clocks: &mut Clocks) -> Judged {
        let wanted = match row.place {
            Place::Elsewhere(place) => return Judged::Elsewhere(place),
            Place::Database(database, wanted) => {
                let ready = wanted.and_then(|wanted| self.ready(row.id, row.name, &row.said, wanted, clocks));
                return Judged::Elsewhere(match ready {
                    Ok(ready) => in_database(&database, &ready),
                    Err(reason) => {
                        format!("it is run in database \"{database}\", and could be no schedule there: {reason}")
                    }
                });
            }
            Place::Here(wanted) => match *wanted {
                Ok(wanted) => wanted,
                Err(reason) => return Judged::Unsupported(reason),
            },
        };
        match self.ready(row.id, row.name, &row.said, wanted, clocks) {
            Ok(ready) => Judged::Ready(Box::new(ready)),
            Err(reason) => Judged::Unsupported(reason),
        }
    }

    fn ready(
        &self,
        id: String,
        name: String,
        said: &str,
        wanted: Wanted,
        clocks: &mut Clocks,
    ) -> Result<Ready, String> {
        let Wanted {
            clock,
            time_zone,
            job,
            shared_job,
            role: owner,
            overlap,
            enabled,
            note,
            starts_at,
            ends_at,
            payload,
        } = wanted;
        let owner = match owner {
            None => self.caller,
            Some(name) => role::named(&name).ok_or_else(|| format!("role \"{name}\" does not exist"))?,
        };
        // (A new job is one more that runs as the owner.)
        if !role::may_become(self.caller, owner) {
            return Err(format!("it runs as role \"{}\", which you may not act for", role::name(owner)));
        }
        if owner != self.caller && !self.schema.speaks_for_all {
            return Err(format!("it runs as role \"{}\", and only a superuser's table may say so", role::name(owner)));
        }
        let text = clocks.settled(&clock, &time_zone, self.now)?;
        let (source_name, name) = (name.clone(), format!("{}{name}", self.prefix));
        let has_payload = payload.is_some();
        let is_job_shared = shared_job.is_some();
        let job_name = shared_job.map_or_else(|| name.clone(), |job_name| format!("{}{job_name}", self.prefix));
        let schedule = armed_as_its_clock_says(Definition {
            overlap: overlap.to_owned(),
            enabled,
            ownership: Ownership::External.as_str().to_owned(),
            starts_at: starts_at.map(convert::timestamp),
            ends_at: ends_at.map(convert::timestamp),
            payload: payload.unwrap_or_else(Jsonb::empty),
            ..defaults(name.clone(), text, job_name.clone(), Some(time_zone), Some(job_name.clone()))
        });
        let job = job::Definition { job_name, ..job };
        check_keys(&schedule, None).map_err(|(_, failure)| failure.message)?;
        jobs::check(&job).map_err(|failure| failure.message)?;
        let note = clock.note.into_iter().chain(note).reduce(|a, b| format!("{a}; {b}"));
        let fingerprint = fingerprint(said);
        Ok(Ready { id, source_name, name, is_job_shared, fingerprint, schedule, has_payload, job, owner, note })
    }

    /// A row that was imported before.
    fn again(&self, session: &Session, ready: Ready, before: &Imported) -> ResultRow {
        let Some(schedule) = &before.schedule else { return plainly(ready.id, None, "unsupported", None) };
        let may_be = is_still_theirs(&ready, before, schedule);
        match may_be.and_then(|()| if self.dry_run { Ok(()) } else { self.edit(session, &ready, before, schedule) }) {
            Err(failure) => plainly(ready.id, Some(before), "unsupported", Some(failure.message)),
            Ok(()) => {
                if !self.dry_run {
                    let (source, now) = (self.source.name(), self.now);
                    handover::remember_edit(session, source, &self.schema.name, &ready.id, &ready.fingerprint, now);
                }
                let Ready { id, schedule: new, note, .. } = ready;
                let (name, job) = (schedule.name.clone(), schedule.job_name.clone());
                (id, Some(name), Some(new.clock), Some(new.time_zone), Some(job), "changed", note)
            }
        }
    }

    /// Has a schedule and its job say what their row says now. Whether it is fired here is not theirs to say, nor what it is called, nor,
    /// while it is fired here, whether it is on. Of the job only the command is theirs, of the schedule its clock and zone, and, of some
    /// sources, payload and bounds.
    fn edit(&self, session: &Session, ready: &Ready, before: &Imported, schedule: &ImportedSchedule) -> Outcome<()> {
        let found =
            schedules::lock(session, &schedule.name).filter(|found| found.definition.job_name == before.job_name);
        let job = job::lock_definition(session, &before.job_name)
            .filter(|(owner, job)| *owner == ready.owner && job.kind == ready.job.kind);
        // What was looked at before the locks can have been edited since.
        let (Some(found), Some((_, job))) = (found, job) else {
            let message = format!("schedule \"{}\" is edited at this moment: import it again", schedule.name);
            return Err(Failure::invalid(message, ""));
        };
        let (command, own_transactions) = (ready.job.command.clone(), ready.job.own_transactions);
        let edited = job::Definition { command, own_transactions, ..job };
        // What runs is what the role itself has there.
        jobs::write(session, &edited, self.caller, Runs::Theirs)?;
        let new = &ready.schedule;
        edit_locked(session, found, self.caller, |current| {
            let clock_before = current.clock.clone();
            let is_external = current.ownership == Ownership::External.as_str();
            let edited = Definition {
                clock: new.clock.clone(),
                time_zone: new.time_zone.clone(),
                // Of a source without windows they are ours to say.
                starts_at: new.starts_at.or(current.starts_at),
                ends_at: if new.starts_at.is_some() { new.ends_at } else { current.ends_at },
                enabled: if is_external { new.enabled } else { current.enabled },
                ..current
            };
            let edited = if ready.has_payload {
                Definition { payload: new.payload.clone(), starts_at: new.starts_at, ends_at: new.ends_at, ..edited }
            } else {
                edited
            };
            Ok(armed_as_its_new_clock_says(&clock_before, edited, false))
        })
        .map(drop)
    }

    /// Makes schedules of rows that are new, each with its place among the results.
    fn create(
        &self,
        session: &Session,
        mut new: Vec<(usize, Box<Ready>)>,
        ours: &HashMap<String, (String, Oid)>,
    ) -> Vec<(usize, ResultRow)> {
        let mut results = Vec::with_capacity(new.len());
        name_apart(&mut new);
        // The job is there already where other rows of it were imported before, by the name that it had there then.
        for (_, ready) in &mut new {
            if let Some(job_name) = known_job(ready, ours) {
                ready.name_job(job_name);
            }
        }
        let is_ours = |ready: &Ready| known_job(ready, ours).is_some();
        let names = |part: fn(&Ready) -> &String| new.iter().map(|(_, ready)| part(ready).clone()).collect();
        let taken: HashSet<String> = handover::names_taken(session, names(|ready| &ready.name)).into_iter().collect();
        let taken_jobs: HashSet<String> =
            handover::names_taken(session, names(|ready| &ready.job.job_name)).into_iter().collect();
        let refuse = |place: usize, ready: Ready| {
            let note = format!("a schedule or job \"{}\" exists that was not imported from this row", ready.name);
            (place, (ready.id, Some(ready.name), None, None, None, "unsupported", Some(note)))
        };
        let mut free = Vec::with_capacity(new.len());
        let (mut of_job, mut used_names) = (HashMap::<String, String>::new(), HashSet::new());
        for (place, ready) in new {
            if let note @ Some(_) = shard::reason(session, ready.schedule.scope()) {
                results.push((place, plainly(ready.id, None, "elsewhere", note)));
                continue;
            }
            let is_own_job = is_ours(&ready);
            // An id behind a name may have made it another row's.
            let job_of = of_job.entry(ready.job.job_name.clone()).or_insert_with(|| first_part(&ready.id).to_owned());
            let is_anothers = job_of != first_part(&ready.id) || !used_names.insert(ready.name.clone());
            let is_taken = taken.contains(&ready.name) && !(is_own_job && ready.name == ready.job.job_name);
            if is_anothers || is_taken || taken_jobs.contains(&ready.job.job_name) && !is_own_job {
                results.push(refuse(place, *ready));
            } else {
                free.push((place, *ready));
            }
        }
        let mut made: HashMap<String, i64> = HashMap::new();
        if !self.dry_run && !free.is_empty() {
            let mut seen = HashSet::new();
            let all: Vec<(&job::Definition, Oid)> = free
                .iter()
                .filter(|(_, ready)| !is_ours(ready) && seen.insert(&ready.job.job_name))
                .map(|(_, ready)| (&ready.job, ready.owner))
                .collect();
            let jobs: HashSet<String> = handover::insert_jobs(session, &all).into_iter().collect();
            identity::settle(session);
            let with_job = free.iter().filter(|(_, ready)| is_ours(ready) || jobs.contains(&ready.job.job_name));
            let all: Vec<Definition> = with_job.map(|(_, ready)| ready.schedule.clone()).collect();
            made.extend(bulk::insert(session, all, self.now));
            // Somebody took the name between our look and our write.
            let used: HashSet<&String> = free
                .iter()
                .filter(|(_, ready)| made.contains_key(&ready.name))
                .map(|(_, ready)| &ready.job.job_name)
                .collect();
            let orphans: Vec<String> = jobs.into_iter().filter(|name| !used.contains(name)).collect();
            if !orphans.is_empty() {
                handover::delete_jobs(session, orphans);
            }
            let kept = free.iter().filter_map(|(_, ready)| {
                Some(handover::New {
                    source_id: ready.id.clone(),
                    fingerprint: ready.fingerprint.clone(),
                    schedule_id: *made.get(&ready.name)?,
                    job_name: ready.job.job_name.clone(),
                    source_name: ready.source_name.clone(),
                })
            });
            handover::remember(session, self.source.name(), &self.schema.name, kept.collect(), self.now);
        }
        results.extend(free.into_iter().map(|(place, ready)| {
            if !self.dry_run && !made.contains_key(&ready.name) {
                return refuse(place, ready);
            }
            let Ready { id, name, schedule, note, .. } = ready;
            let (clock, zone, job) = (Some(schedule.clock), Some(schedule.time_zone), Some(schedule.job_name));
            let row = (id, Some(name), clock, zone, job, "imported", note);
            (place, row)
        }));
        results
    }
}
