//! How rows of another scheduler are switched off and on, for `take_over` and `hand_back`.

use std::collections::HashSet;
use std::ffi::{CStr, CString};

use pgrx::datum::TimestampWithTimeZone;
use pgrx::pg_sys::{self, Oid};
use pgrx::PgSqlErrorCode;
use scheduler_core::foreign::comparison::Run;
use scheduler_core::Instant;

use crate::pg::error::{Failure, Outcome};
use crate::pg::{invalidation, role, syscache, Session};
use crate::store::handover::foreign::{self, argument, instant, ForeignSchema, TextRow};

/// A scheduler whose rows can be taken over in one transaction. Statements are files of `sql/query/handover`, with `{schema}`, and an array of
/// source ids as their first parameter.
pub struct Switch {
    /// What the scheduler is called in arguments.
    pub source: &'static str,
    /// The table that says whether a row is on.
    pub table: &'static CStr,
    /// Its column for that.
    pub enabled: &'static str,
    /// Its columns that are the source id, one behind the other with a slash between.
    pub id: &'static [&'static str],
    /// The columns of other tables that say so as well: the table and the column of each.
    pub enabled_by: &'static [(&'static str, &'static str)],
    /// Tables that it writes to, or triggers of theirs do.
    pub writes: &'static [&'static CStr],
    /// Keeps whatever runs their jobs from beginning to do so, where the locks on rows do not.
    pub lock_tables: Option<&'static str>,
    /// Locks rows; returns `id` and `enabled`.
    pub lock: &'static str,
    /// Returns `id` of a run that goes on, where something may.
    pub running: Option<&'static str>,
    /// The tables that this reads besides. Where one is missing nothing is known to run.
    pub running_in: &'static [&'static CStr],
    /// Returns `id`, `began` and `ended`: when the newest run of each began and, if that is known, ended, in microseconds since 1970.
    pub newest: &'static str,
    /// The tables that this reads besides. Where one is missing nothing is known to have run.
    pub newest_in: &'static [&'static CStr],
    /// The schemas that may have those tables, which are `{runs}` in statements, where it is another one.
    pub runs_schemas: &'static [&'static str],
    /// Switches rows on or off, as its second parameter says. The third says of each when it was due last, where it is switched on.
    pub switch: &'static str,
    /// Returns `id` of those that are on.
    pub enabled_now: &'static str,
    /// Has rows run at these times next, which are its second parameter, where it would go by a time that has passed; and the table, in the
    /// schema of runs, that this writes.
    pub next: Option<(&'static str, &'static CStr)>,
    /// Returns `id` of those that it may run once more after they are off, and for how long.
    pub kept: Option<(&'static str, &'static str)>,
    /// The table, with its schema, whose entry in Postgres' caches tells it that something has changed.
    pub signal: Option<(&'static CStr, &'static CStr)>,
    /// How long after a plan time it may still begin with that, in microseconds.
    pub settles: i64,
    /// How long before the next one it has to know, in microseconds.
    pub warning: i64,
    /// How much later it may write down that it has run something, in microseconds.
    pub written_within: i64,
}

/// pg_cron's launcher hears of a change when the transaction has committed, looks each second at the latest, and begins each full minute with what is due.
/// Three seconds after that it has, and two before it has not begun.
pub static PG_CRON: Switch = Switch {
    source: "pg_cron",
    table: c"job",
    enabled: "active",
    id: &["jobid"],
    enabled_by: &[],
    writes: &[c"job"],
    lock_tables: None,
    lock: include_str!("../../../sql/query/handover/pg_cron_lock.sql"),
    running: Some(include_str!("../../../sql/query/handover/pg_cron_running.sql")),
    running_in: &[c"job_run_details"],
    newest: include_str!("../../../sql/query/handover/pg_cron_newest.sql"),
    newest_in: &[c"job_run_details"],
    runs_schemas: &[],
    switch: include_str!("../../../sql/query/handover/pg_cron_switch.sql"),
    enabled_now: include_str!("../../../sql/query/handover/pg_cron_enabled.sql"),
    next: None,
    kept: None,
    signal: None,
    settles: 3_000_000,
    warning: 2_000_000,
    written_within: 0,
};

/// An agent looks for jobs that are due, every ten seconds unless it is told otherwise, and takes each by an update of its row, which does not
/// ask again whether it is due. So what is due is waited for where there is an agent, and none can begin to look meanwhile.
pub static PGAGENT: Switch = Switch {
    source: "pgagent",
    table: c"pga_schedule",
    enabled: "jscenabled",
    id: &["jscjobid", "jscid"],
    enabled_by: &[("pga_job", "jobid"), ("pga_job", "jobenabled")],
    writes: &[c"pga_schedule", c"pga_job"],
    lock_tables: Some(include_str!("../../../sql/query/handover/pgagent_lock_tables.sql")),
    lock: include_str!("../../../sql/query/handover/pgagent_lock.sql"),
    running: Some(include_str!("../../../sql/query/handover/pgagent_running.sql")),
    running_in: &[c"pga_jobagent", c"pga_joblog"],
    newest: include_str!("../../../sql/query/handover/pgagent_newest.sql"),
    newest_in: &[c"pga_joblog"],
    runs_schemas: &[],
    switch: include_str!("../../../sql/query/handover/pgagent_switch.sql"),
    enabled_now: include_str!("../../../sql/query/handover/pgagent_enabled.sql"),
    next: None,
    kept: None,
    signal: None,
    settles: 15_000_000,
    warning: 3_000_000,
    written_within: 0,
};

/// A client asks each full minute which chains are due. Those that come after intervals it has in memory, and asks for them each minute.
pub static PG_TIMETABLE: Switch = Switch {
    source: "pg_timetable",
    table: c"chain",
    enabled: "live",
    id: &["chain_id"],
    enabled_by: &[],
    writes: &[c"chain"],
    lock_tables: None,
    lock: include_str!("../../../sql/query/handover/pg_timetable_lock.sql"),
    running: Some(include_str!("../../../sql/query/handover/pg_timetable_running.sql")),
    running_in: &[c"active_chain", c"active_session"],
    newest: include_str!("../../../sql/query/handover/pg_timetable_newest.sql"),
    newest_in: &[c"execution_log"],
    runs_schemas: &[],
    switch: include_str!("../../../sql/query/handover/pg_timetable_switch.sql"),
    enabled_now: include_str!("../../../sql/query/handover/pg_timetable_enabled.sql"),
    next: None,
    kept: Some((include_str!("../../../sql/query/handover/pg_timetable_kept.sql"), "a minute")),
    signal: None,
    settles: 5_000_000,
    warning: 2_000_000,
    written_within: 0,
};

/// Where TimescaleDB writes down what it has run: in newer versions and in older ones.
pub const TIMESCALEDB_RUNS: [&str; 2] = ["_timescaledb_catalog", "_timescaledb_internal"];

/// Its scheduler reads its jobs again when it hears that they have changed, which its own functions say by the cache of a table of that name.
pub static TIMESCALEDB: Switch = Switch {
    source: "timescaledb",
    table: c"bgw_job",
    enabled: "scheduled",
    id: &["id"],
    enabled_by: &[],
    writes: &[c"bgw_job"],
    lock_tables: None,
    lock: include_str!("../../../sql/query/handover/timescaledb_lock.sql"),
    running: Some(include_str!("../../../sql/query/handover/timescaledb_running.sql")),
    running_in: &[c"bgw_job_stat"],
    newest: include_str!("../../../sql/query/handover/timescaledb_newest.sql"),
    newest_in: &[c"bgw_job_stat"],
    runs_schemas: &TIMESCALEDB_RUNS,
    switch: include_str!("../../../sql/query/handover/timescaledb_switch.sql"),
    enabled_now: include_str!("../../../sql/query/handover/timescaledb_enabled.sql"),
    next: Some((include_str!("../../../sql/query/handover/timescaledb_next.sql"), c"bgw_job_stat")),
    kept: None,
    signal: Some((c"_timescaledb_cache", c"cache_inval_bgw_job")),
    settles: 3_000_000,
    warning: 2_000_000,
    written_within: 0,
};

/// Beat has its schedule in memory, and looks every five seconds at the latest whether that has changed. Then it writes down what it has sent, and
/// else each three minutes: what it has not written down by then it has not sent.
pub static CELERY_BEAT: Switch = Switch {
    source: "celery_beat",
    table: c"django_celery_beat_periodictask",
    enabled: "enabled",
    id: &["id"],
    enabled_by: &[],
    writes: &[c"django_celery_beat_periodictask", c"django_celery_beat_periodictasks"],
    lock_tables: None,
    lock: include_str!("../../../sql/query/handover/celery_beat_lock.sql"),
    // What Beat runs is to send a message, and that is done at once.
    running: None,
    running_in: &[],
    newest: include_str!("../../../sql/query/handover/celery_beat_newest.sql"),
    newest_in: &[],
    runs_schemas: &[],
    switch: include_str!("../../../sql/query/handover/celery_beat_switch.sql"),
    enabled_now: include_str!("../../../sql/query/handover/celery_beat_enabled.sql"),
    next: None,
    kept: Some((include_str!("../../../sql/query/handover/celery_beat_kept.sql"), "five minutes")),
    signal: None,
    settles: 5_000_000,
    warning: 10_000_000,
    written_within: 200_000_000,
};

const ALL: [&Switch; 5] = [&PG_CRON, &PGAGENT, &PG_TIMETABLE, &TIMESCALEDB, &CELERY_BEAT];

/// How rows of this source are switched, where it is one of today's.
pub fn of(source: &str) -> Option<&'static Switch> {
    ALL.into_iter().find(|switch| switch.source == source)
}

impl Switch {
    fn table(&self) -> &'static str {
        self.table.to_str().unwrap_or_default()
    }

    fn ids(statement: &str, schema: &ForeignSchema, ids: &[String]) -> Vec<String> {
        let rows = schema.rows_of(statement, &[argument(ids.to_vec())]);
        rows.iter().map(|row| row.text("id").to_owned()).collect()
    }

    /// Locks these rows; each that is there, and whether it is on.
    pub fn lock_rows(&self, schema: &ForeignSchema, ids: &[String]) -> Vec<(String, bool)> {
        self.lock_tables.into_iter().for_each(|statement| drop(schema.rows(statement)));
        let rows = schema.rows_of(self.lock, &[argument(ids.to_vec())]);
        rows.iter().map(|row| (row.text("id").to_owned(), matches!(row.text("enabled"), "true" | "t"))).collect()
    }

    /// Whether its tables are there, and are tables: scheduler_cron has views of these names.
    pub fn is_there(&self, schema: &str) -> bool {
        let name = CString::new(schema).unwrap_or_default();
        let is_table = |table: &&CStr| syscache::relation_named(&name, table).is_some_and(syscache::is_plain_table);
        self.writes.iter().all(is_table)
    }

    /// Those of these rows that are there.
    pub fn there(&self, schema: &ForeignSchema, ids: &[String]) -> HashSet<String> {
        Switch::ids(self.lock, schema, ids).into_iter().collect()
    }

    /// Where it writes down what it runs: the first of those schemas that has the tables.
    fn runs_place(&self, schema: &ForeignSchema) -> ForeignSchema {
        let place = |name: &str| ForeignSchema { name: name.to_owned(), speaks_for_all: schema.speaks_for_all };
        let has_runs = |place: &ForeignSchema| self.newest_in.iter().all(|table| place.has(table));
        let mut places = self.runs_schemas.iter().map(|name| place(name));
        places.find(has_runs).unwrap_or_else(|| place(&schema.name))
    }

    /// A statement that reads it.
    fn of_runs(&self, statement: &str, schema: &ForeignSchema) -> String {
        statement.replace("{runs}", &foreign::quoted(&self.runs_place(schema).name))
    }

    /// Has rows that were switched on run at these times next.
    pub fn begin_with(
        &self,
        schema: &ForeignSchema,
        next: Vec<(String, TimestampWithTimeZone)>,
        caller: Oid,
    ) -> Outcome<()> {
        let place = self.runs_place(schema);
        let Some((statement, table)) = self.next.filter(|(_, table)| place.has(table) && !next.is_empty()) else {
            return Ok(());
        };
        Switch::lock_write(&place, table, caller);
        Switch::check_triggers_of(&place, table, caller)?;
        let (ids, times): (Vec<String>, Vec<TimestampWithTimeZone>) = next.into_iter().unzip();
        place.rows_of(statement, &[argument(ids), argument(times)]);
        Ok(())
    }

    /// Whether these tables are there, in which it writes down what it runs; `42501` where they are not to be trusted.
    fn has_runs(&self, schema: &ForeignSchema, tables: &[&CStr], caller: Oid) -> Outcome<bool> {
        let place = self.runs_place(schema);
        if !tables.iter().all(|table| place.has(table)) {
            return Ok(false);
        }
        tables.iter().try_for_each(|table| place.trust(table, caller).map(drop))?;
        Ok(true)
    }

    /// Those of these rows of which a run goes on.
    pub fn running(&self, schema: &ForeignSchema, ids: &[String], caller: Oid) -> Outcome<HashSet<String>> {
        let Some(running) = self.running else { return Ok(HashSet::new()) };
        let has_runs = self.has_runs(schema, self.running_in, caller)?;
        Ok(if has_runs {
            Switch::ids(&self.of_runs(running, schema), schema, ids).into_iter().collect()
        } else {
            HashSet::new()
        })
    }

    /// `0A000` where one of these rows may be run once more after it is off.
    pub fn check_memory(&self, schema: &ForeignSchema, ids: &[String]) -> Outcome<()> {
        let Some((statement, time)) = self.kept else { return Ok(()) };
        Switch::ids(statement, schema, ids).first().map_or(Ok(()), |id| {
            Err(Failure::new(
                PgSqlErrorCode::ERRCODE_FEATURE_NOT_SUPPORTED,
                format!("{} has {id} in its memory, and may run it for {time} after it is off", self.source),
                "Switch it off there and wait for that long. Then it can be taken over, and sched.resume has it fire here.",
            ))
        })
    }

    /// The newest run of a row.
    pub fn newest(&self, schema: &ForeignSchema, id: &str, caller: Oid) -> Outcome<Option<Run>> {
        if !self.has_runs(schema, self.newest_in, caller)? {
            return Ok(None);
        }
        let rows = schema.rows_of(&self.of_runs(self.newest, schema), &[argument(vec![id])]);
        let run = |row: &TextRow| Some(Run { began: instant(row.get("began"))?, ended: instant(row.get("ended")) });
        Ok(rows.first().and_then(run))
    }

    /// Keeps everybody from changing the tables that are written and from making triggers of them, until the transaction ends; `42501` as
    /// `check_triggers` says, which was asked before somebody could have made one. Where the caller may not write them, rows say so.
    pub fn lock_writes(&self, schema: &ForeignSchema, caller: Oid) -> Outcome<()> {
        self.writes.iter().for_each(|table| Switch::lock_write(schema, table, caller));
        self.check_triggers(schema, caller)
    }

    fn lock_write(schema: &ForeignSchema, table: &CStr, caller: Oid) {
        let name = CString::new(schema.name.as_str()).unwrap_or_default();
        let table = syscache::relation_named(&name, table).filter(|table| role::may_update(caller, *table));
        // SAFETY: a lock on an oid, inside a transaction.
        table
            .into_iter()
            .for_each(|table| unsafe { pg_sys::LockRelationOid(table, pg_sys::ShareRowExclusiveLock as i32) });
    }

    /// `42501` where switching rows would run a trigger of somebody's who is neither a superuser nor the caller: with the caller's rights.
    pub fn check_triggers(&self, schema: &ForeignSchema, caller: Oid) -> Outcome<()> {
        self.writes.iter().try_for_each(|table| Switch::check_triggers_of(schema, table, caller))
    }

    fn check_triggers_of(schema: &ForeignSchema, table: &CStr, caller: Oid) -> Outcome<()> {
        schema.trust(table, caller)?;
        let table = table.to_str().unwrap_or_default();
        let statement = include_str!("../../../sql/query/handover/foreign_triggers.sql");
        let arguments = [argument(schema.name.as_str()), argument(table), argument(caller)];
        schema.rows_of(statement, &arguments).first().map_or(Ok(()), |found| {
            let (name, owner) = (found.text("name"), found.text("owner"));
            let (what, hint) = if found.text("by_function") == "true" {
                ("of", "It would run with your rights. Drop it, or have its function belong to a superuser.")
            } else {
                ("with a condition, maybe of", "The condition would run with your rights. Drop it, or revoke TRIGGER on the table and look who made it.")
            };
            Err(Failure::new(
                PgSqlErrorCode::ERRCODE_INSUFFICIENT_PRIVILEGE,
                format!("table \"{}.{table}\" has trigger \"{name}\" {what} role \"{owner}\"", schema.name),
                hint,
            ))
        })
    }

    /// Switches them off.
    pub fn off(&self, schema: &ForeignSchema, ids: &[String]) {
        self.set(schema, ids.iter().map(|id| (id.clone(), None)).collect(), false);
    }

    /// Switches them on, each with the time at which it was due last.
    pub fn on(&self, schema: &ForeignSchema, rows: Vec<(String, Option<TimestampWithTimeZone>)>) {
        self.set(schema, rows, true);
    }

    fn set(&self, schema: &ForeignSchema, rows: Vec<(String, Option<TimestampWithTimeZone>)>, enabled: bool) {
        if !rows.is_empty() {
            let (ids, due): (Vec<String>, Vec<Option<TimestampWithTimeZone>>) = rows.into_iter().unzip();
            schema.rows_of(self.switch, &[argument(ids), argument(enabled), argument(due)]);
            let signal = self.signal.and_then(|(schema, table)| syscache::relation_named(schema, table));
            signal.into_iter().for_each(invalidation::changed);
        }
    }

    /// Those that are on.
    pub fn enabled_now(&self, schema: &ForeignSchema, ids: &[String]) -> Vec<String> {
        Switch::ids(self.enabled_now, schema, ids)
    }

    /// `42501` where what says whether a row is on could run something when it is read: the guard reads it, and dispatchers do.
    pub fn check_guard(&self, schema: &ForeignSchema) -> Outcome<()> {
        let own = self.id.iter().chain([&self.enabled]).map(|column| (self.table(), *column));
        let (tables, columns): (Vec<&str>, Vec<&str>) = own.chain(self.enabled_by.iter().copied()).unzip();
        let statement = include_str!("../../../sql/query/handover/foreign_switch_faults.sql");
        let arguments = [argument(schema.name.as_str()), argument(tables), argument(columns)];
        schema.rows_of(statement, &arguments).first().map_or(Ok(()), |found| {
            Err(Failure::new(
                PgSqlErrorCode::ERRCODE_INSUFFICIENT_PRIVILEGE,
                format!("column {} in schema \"{}\" is no number or boolean of Postgres' own", found.text("fault"), schema.name),
                "It is read at each change of its table and by dispatchers: nothing of anybody's may run meanwhile. Have it as the other scheduler made it.",
            ))
        })
    }

    /// Has the table refuse that what is fired here is switched on there. As the extension's owner: the session says so.
    pub fn guard(&self, _session: &Session, schema: &ForeignSchema) {
        let literals = [self.source, self.enabled].into_iter().chain(self.id.iter().copied()).map(foreign::literal);
        let arguments = literals.collect::<Vec<_>>().join(", ");
        for statement in [
            include_str!("../../../sql/query/handover/guard.sql"),
            include_str!("../../../sql/query/handover/guard_always.sql"),
            include_str!("../../../sql/query/handover/guard_depends.sql"),
        ] {
            schema
                .rows(&statement.replace("{arguments}", &arguments).replace("{table}", &foreign::quoted(self.table())));
        }
    }

    /// Takes that away again.
    pub fn unguard(&self, _session: &Session, schema: &ForeignSchema) {
        let statement = include_str!("../../../sql/query/handover/guard_drop.sql");
        schema.rows(&statement.replace("{table}", &foreign::quoted(self.table())));
    }
}

/// Where time stands between the plan times of schedules.
pub enum Moment {
    /// Far enough from all of them, until then.
    Good(Option<Instant>),
    /// Too near to one: look again at this time.
    Wait(Instant),
}

/// Whether `now` is far enough from plan times, of each the one before and the one after.
pub fn moment(switch: &Switch, plans: &[(Option<Instant>, Option<Instant>)], now: Instant) -> Moment {
    let after = |at: Instant, micros| at.checked_add_micros(micros).unwrap_or(Instant::MAX);
    let mut wait: Option<Instant> = None;
    let mut until: Option<Instant> = None;
    for (previous, next) in plans {
        let settled = previous.map(|plan| after(plan, switch.settles)).filter(|settled| *settled > now);
        // A second to commit in.
        let too_near = next.filter(|plan| after(now, switch.warning + 1_000_000) > *plan);
        let again = too_near.map(|plan| after(plan, switch.settles)).or(settled);
        wait = wait.max(again);
        let limit = next.and_then(|plan| plan.checked_add_micros(-switch.warning));
        until = match (until, limit) {
            (Some(one), Some(other)) => Some(one.min(other)),
            (one, other) => one.or(other),
        };
    }
    wait.map_or(Moment::Good(until), Moment::Wait)
}
