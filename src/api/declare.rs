//! `declare_schedules`: a group has exactly the schedules that a call names.
//!
//! An application calls it at each start, any number of its instances at once. The group's row makes them take turns, and what is as declared is
//! not touched: the first call applies a change, and the others find nothing to do. A dry run does the same and takes it back.

use std::collections::{HashMap, HashSet};

use pgrx::prelude::*;
use pgrx::PgSqlErrorCode;

use crate::pg::convert::{self, required};
use crate::pg::error::{or_raise, warn, Failure, Outcome};
use crate::pg::jsonb::Jsonb;
use crate::pg::utf8_text::Text;
use crate::pg::{memory, role, session, subtransaction, Session};
use crate::store::schedule::{self as schedules, group, Definition, Locked};
use crate::store::{database_clock, identity, shard};

use crate::api::declare_spec::{self, Declaration};
use crate::api::declared_job::{self as pair, differences, Pair};
use crate::api::job as jobs;
use crate::api::result::TableIterator;
use crate::api::schedule::{self, Before};
use crate::api::schedule_bulk::BYTES_FOR_EACH;
use crate::api::schedule_edit::{edit_locked, refuse_giving_up};
use crate::api::sql_job;

/// What became of a schedule.
struct Row {
    schedule_name: String,
    action: &'static str,
    detail: Option<String>,
}

#[pg_extern(schema = "sched", volatile, parallel_unsafe)]
fn declare_schedules(
    group_name: Option<Text>,
    specs: Option<Jsonb>,
    dry_run: default!(Option<bool>, "false"),
    prune: default!(Option<bool>, "true"),
) -> TableIterator<'static, (name!(schedule_name, String), name!(action, String), name!(detail, Option<String>))> {
    or_raise((|| {
        let group_name = convert::name("group_name", group_name)?;
        let specs = required("specs", specs)?;
        let (dry_run, prunes) = (required("dry_run", dry_run)?, required("prune", prune)?);
        memory::require(BYTES_FOR_EACH * specs.stored_size());
        let caller = role::caller();
        let mut warnings = Vec::new();
        let mut declare = || {
            session(|session| {
                identity::refuse_distributed(|| session)?;
                let declared = declare_spec::read(session, &specs)?;
                lock(session, &group_name, caller)?;
                Declaring { session, group_name: &group_name, caller, warnings: &mut warnings }.all(declared, prunes)
            })
        };
        let rows = if dry_run { subtransaction::undone(declare).and_then(|rows| rows)? } else { declare()? };
        warnings.into_iter().map(Some).for_each(warn);
        Ok(TableIterator::new(rows.into_iter().map(|row| (row.schedule_name, row.action.to_owned(), row.detail))))
    })())
}

/// Has other declarations of the group wait; `42501` where it is another role's, which is asked before anything is locked.
fn lock(session: &Session, group_name: &str, caller: pg_sys::Oid) -> Outcome<()> {
    let check = |owner: Option<pg_sys::Oid>| match owner {
        Some(owner) if !role::may_act_for(caller, owner) => Err(Failure::not_owner("group", group_name)),
        found => Ok(found),
    };
    if check(group::owner(session, group_name))?.is_none() {
        group::make(session, group_name, caller);
    }
    if group::lock(session, group_name, caller) {
        return Ok(());
    }
    check(group::owner(session, group_name))?;
    Err(Failure::new(
        PgSqlErrorCode::ERRCODE_T_R_SERIALIZATION_FAILURE,
        format!("another transaction has just made group \"{}\"", convert::shown(group_name)),
        "Try the transaction again.",
    ))
}

/// A declaration that goes on.
struct Declaring<'a> {
    session: &'a Session,
    group_name: &'a str,
    caller: pg_sys::Oid,
    warnings: &'a mut Vec<Failure>,
}

impl Declaring<'_> {
    /// Makes the group what is declared; a row for each of its schedules.
    fn all(&mut self, declared: Vec<Declaration>, prunes: bool) -> Outcome<Vec<Row>> {
        shard::lock();
        let declared = self.here(declared)?;
        let there = group::schedules(self.session, self.group_name);
        let renames = renames(&declared, &there);
        let mut rows: Vec<Option<Row>> = declared.iter().map(|_| None).collect();
        // What is renamed makes room for another.
        let order = renames.iter().map(|(place, _)| *place).collect::<Vec<_>>();
        let is_renamed: HashSet<usize> = order.iter().copied().collect();
        let was: HashMap<usize, &str> = renames.iter().map(|(place, was)| (*place, was.as_str())).collect();
        for place in order.into_iter().chain((0..declared.len()).filter(|place| !is_renamed.contains(place))) {
            let one = &declared[place];
            let row = self.one(one, was.get(&place).copied()).map_err(|failure| one.blame(failure))?;
            rows[place] = Some(row);
            pgrx::check_for_interrupts!();
        }
        let mut rows: Vec<Row> = rows.into_iter().flatten().collect();
        let named: HashSet<&str> = declared.iter().map(Declaration::name).chain(was.into_values()).collect();
        for name in there.iter().filter(|name| !named.contains(name.as_str())) {
            rows.push(if prunes { self.drop(name)? } else { row(name, "unchanged", None) });
        }
        Ok(rows)
    }

    /// Those whose scope is this server's, where several share scopes; `40001`.
    fn here(&self, declared: Vec<Declaration>) -> Outcome<Vec<Declaration>> {
        let here = |one: Declaration| match shard::first_elsewhere(|| self.session, [one.scope()]) {
            Ok(None) => Some(Ok(one)),
            Ok(Some(_)) => None,
            Err(failure) => Some(Err(failure)),
        };
        declared.into_iter().filter_map(here).collect()
    }

    /// Makes one schedule what is declared; `was` is what it is called so far, where it is renamed.
    fn one(&mut self, declared: &Declaration, was: Option<&str>) -> Outcome<Row> {
        let name = declared.name();
        let found = schedule::find_if_any(self.session, was.unwrap_or(name), self.caller)?;
        let Some(found) = found else { return self.create(declared) };
        match found.group_name.as_deref() {
            Some(group) if group == self.group_name => {}
            None if declared.adopts() => {}
            other => return Err(not_of_group(name, other)),
        }
        let is_new_here = found.group_name.is_none();
        let scope_id = found.default_scope_id.clone().unwrap_or_else(|| found.definition.scope_id.clone());
        let new = declared.definition(Some((&found.definition, &scope_id)));
        let mut changes = differences(declare_spec::texts(&found.definition), declare_spec::texts(&new));
        if is_new_here {
            changes.insert(0, format!("group_name: (none) → {}", self.group_name));
        }
        let schedule_id = found.schedule_id;
        let pair = declared.pair(name);
        changes.extend(self.write_job(pair.as_ref(), &found, name)?);
        if found.definition != new {
            self.edit(found.clone(), new)?;
        }
        self.leave_job(pair.as_ref(), &found, name)?;
        if is_new_here {
            group::keep(self.session, schedule_id, self.group_name, &scope_id);
        }
        let action = match (was.is_some(), changes.is_empty()) {
            (true, _) => "renamed",
            (false, true) => "unchanged",
            (false, false) => "altered",
        };
        Ok(row(name, action, (!changes.is_empty()).then(|| changes.join("; "))))
    }

    fn create(&mut self, declared: &Declaration) -> Outcome<Row> {
        let (name, new) = (declared.name(), declared.definition(None));
        schedule::check(&new, None)?;
        match declared.pair(name) {
            Some(pair) => {
                pair::write(self.session, &pair, None, self.caller)?;
            }
            None => self.check_jobs(&new)?,
        }
        let now = database_clock::now();
        self.warnings.extend(schedule::will_not_fire(&new, now, now)?);
        let scope_id = new.scope_id.clone();
        let schedule_id = schedule::insert(self.session, new)?;
        if declared.is_pair() {
            sql_job::remember(self.session, name, schedule_id);
        }
        group::keep(self.session, schedule_id, self.group_name, &scope_id);
        Ok(row(name, "created", None))
    }

    fn check_jobs(&self, new: &Definition) -> Outcome<()> {
        let job = schedule::check_job(self.session, &new.job_name, self.caller)?;
        jobs::check_payload(job.notifies, &new.job_name, &new.payload)?;
        schedule::check_alert_job(self.session, new, self.caller)
    }

    fn edit(&mut self, found: Locked, new: Definition) -> Outcome<()> {
        let Definition { clock, time_zone, payload, .. } = &found.definition;
        schedule::check(&new, Some(Before { clock, time_zone, payload }))?;
        let (session, schedule_id, before) = (self.session, found.schedule_id, found.definition.clone());
        let warning = edit_locked(session, found, self.caller, |_| {
            refuse_giving_up(session, schedule_id, &before, &new)?;
            Ok(new)
        })?;
        self.warnings.extend(warning);
        Ok(())
    }

    /// Has the job of a pair say what is declared, before the schedule uses it; what has changed.
    fn write_job(&self, pair: Option<&Pair>, found: &Locked, name: &str) -> Outcome<Vec<String>> {
        let Some(pair) = pair else { return Ok(Vec::new()) };
        let changes = pair::write(self.session, pair, Some(found), self.caller)?;
        sql_job::remember(self.session, name, found.schedule_id);
        Ok(changes)
    }

    /// Drops the job of the pair that the schedule was, where it has another by now. What waits keeps its job's name.
    fn leave_job(&self, pair: Option<&Pair>, found: &Locked, name: &str) -> Outcome<()> {
        let Some(old) = found.sql_pair.as_deref() else { return Ok(()) };
        if pair.is_some() && old == name {
            return Ok(());
        }
        if pair.is_none() {
            schedules::set_pair(self.session, found.schedule_id, None);
        }
        if sql_job::is_left_over(self.session, old, self.caller) {
            jobs::delete(self.session, old)?;
        }
        Ok(())
    }

    fn drop(&self, name: &str) -> Outcome<Row> {
        if let Some(found) = schedule::find_if_any(self.session, name, self.caller)? {
            schedule::delete(self.session, found.schedule_id, found.sql_pair.is_some());
            let left = found.sql_pair.filter(|old| sql_job::is_left_over(self.session, old, self.caller));
            left.iter().try_for_each(|old| sql_job::drop_with_pending(self.session, old))?;
        }
        Ok(row(name, "dropped", None))
    }
}

fn row(name: &str, action: &'static str, detail: Option<String>) -> Row {
    Row { schedule_name: name.to_owned(), action, detail }
}

fn not_of_group(name: &str, group: Option<&str>) -> Failure {
    let (name, group) = (convert::shown(name), group.map(convert::shown));
    let whose = group.map_or_else(|| "of no group".to_owned(), |group| format!("of group \"{group}\""));
    Failure::new(
        PgSqlErrorCode::ERRCODE_DUPLICATE_OBJECT,
        format!("schedule \"{name}\" exists and is {whose}"),
        "Choose another name. A schedule of no group is taken into this one by \"adopt\": true.",
    )
}

/// Which declared schedules are ones of the group by another name so far, in an order in which each finds its new name free. A name that the group
/// has stays with the declaration of that name, unless the schedule that has it is renamed itself: so the same call again renames nothing. (And two
/// that would exchange their names keep them.)
fn renames(declared: &[Declaration], there: &[String]) -> Vec<(usize, String)> {
    let mut taken: HashSet<&str> = there.iter().map(String::as_str).collect();
    let places: HashMap<&str, usize> = declared.iter().enumerate().map(|(place, one)| (one.name(), place)).collect();
    let mut moves: HashMap<usize, &str> = HashMap::new();
    for (place, one) in declared.iter().enumerate() {
        let was = one.was().filter(|was| *was != one.name() && taken.contains(was));
        if let Some(was) = was.filter(|was| !moves.values().any(|moved| moved == was)) {
            moves.insert(place, was);
        }
    }
    loop {
        let stays = |(place, was): (&usize, &&str)| {
            let keeps_it = places.get(was).is_some_and(|other| !moves.contains_key(other));
            let name = declared[*place].name();
            let is_in_the_way = taken.contains(name) && !moves.values().any(|moved| *moved == name);
            keeps_it || is_in_the_way
        };
        let Some(place) = moves.iter().find(|one| stays(*one)).map(|(place, _)| *place) else { break };
        moves.remove(&place);
    }
    let mut renames = Vec::new();
    while let Some(place) =
        (0..declared.len()).find(|place| moves.contains_key(place) && !taken.contains(declared[*place].name()))
    {
        let was = moves.remove(&place).unwrap_or_default();
        taken.remove(was);
        taken.insert(declared[place].name());
        renames.push((place, was.to_owned()));
    }
    renames
}
