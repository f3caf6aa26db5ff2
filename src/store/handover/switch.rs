//! How rows of another scheduler are switched off and on, for `take_over` and `hand_back`.

use std::ffi::CStr;

use pgrx::pg_sys::Oid;
use pgrx::PgSqlErrorCode;
use scheduler_core::Instant;

use crate::pg::error::{Failure, Outcome};
use crate::pg::Session;
use crate::store::handover::foreign::{self, instant, ForeignSchema};

/// A scheduler whose rows can be taken over in one transaction. Statements are files of `sql/query/handover`, with `{schema}`, and `{ids}` for
/// an array of source ids as text.
pub struct Switch {
    /// The table that says whether a row is on.
    pub table: &'static CStr,
    /// Its column for that.
    pub enabled: &'static str,
    /// Its columns that are the source id, one behind the other with a slash between.
    pub id: &'static [&'static str],
    /// Locks rows; returns `id` and `enabled`.
    pub lock: &'static str,
    /// Returns `id` of a run that goes on.
    pub running: &'static str,
    /// Returns `id` and `began`, when the newest run of each began, in microseconds since 1970.
    pub newest: &'static str,
    /// Switches rows on or off (`{enabled}`).
    pub switch: &'static str,
    /// Returns `id` of those that are on.
    pub enabled_now: &'static str,
    /// How long after a plan time it may still begin with that, in microseconds.
    pub settles: i64,
    /// How long before the next one it has to know, in microseconds.
    pub warning: i64,
}

/// pg_cron's launcher hears of a change when the transaction has committed, looks each second at the latest, and begins each full minute with what is due.
/// Three seconds after that it has, and two before it has not begun.
pub static PG_CRON: Switch = Switch {
    table: c"job",
    enabled: "active",
    id: &["jobid"],
    lock: include_str!("../../../sql/query/handover/pg_cron_lock.sql"),
    running: include_str!("../../../sql/query/handover/pg_cron_running.sql"),
    newest: include_str!("../../../sql/query/handover/pg_cron_newest.sql"),
    switch: include_str!("../../../sql/query/handover/pg_cron_switch.sql"),
    enabled_now: include_str!("../../../sql/query/handover/pg_cron_enabled.sql"),
    settles: 3_000_000,
    warning: 2_000_000,
};

/// How rows of this source are switched, where they can be.
pub fn of(source: &str) -> Option<&'static Switch> {
    (source == "pg_cron").then_some(&PG_CRON)
}

/// Ids as the literal of an array.
fn literal(ids: &[String]) -> String {
    let elements: Vec<String> =
        ids.iter().map(|id| format!("\"{}\"", id.replace('\\', "\\\\").replace('"', "\\\""))).collect();
    format!("'{{{}}}'", elements.join(",").replace('\'', "''"))
}

impl Switch {
    fn table(&self) -> &'static str {
        self.table.to_str().unwrap_or_default()
    }

    fn ids(statement: &str, schema: &ForeignSchema, ids: &[String]) -> Vec<String> {
        let rows = schema.rows(&statement.replace("{ids}", &literal(ids)));
        rows.iter().map(|row| row.text("id").to_owned()).collect()
    }

    /// Locks these rows; each that is there, and whether it is on.
    pub fn lock_rows(&self, schema: &ForeignSchema, ids: &[String]) -> Vec<(String, bool)> {
        let rows = schema.rows(&self.lock.replace("{ids}", &literal(ids)));
        rows.iter().map(|row| (row.text("id").to_owned(), matches!(row.text("enabled"), "true" | "t"))).collect()
    }

    /// One of these rows of which a run goes on.
    pub fn running(&self, schema: &ForeignSchema, ids: &[String]) -> Option<String> {
        Switch::ids(self.running, schema, ids).into_iter().next()
    }

    /// When the newest run of a row began.
    pub fn newest(&self, schema: &ForeignSchema, id: &str) -> Option<Instant> {
        let rows = schema.rows(&self.newest.replace("{ids}", &literal(&[id.to_owned()])));
        instant(rows.first()?.get("began"))
    }

    /// `42501` where switching rows would run a trigger of somebody's who is neither a superuser nor the caller: with the caller's rights.
    pub fn check_triggers(&self, schema: &ForeignSchema, caller: Oid) -> Outcome<()> {
        let statement = include_str!("../../../sql/query/handover/foreign_triggers.sql")
            .replace("{table}", &foreign::quoted(self.table()))
            .replace("{caller}", &caller.to_u32().to_string());
        match schema.rows(&statement).first() {
            None => Ok(()),
            Some(found) => Err(Failure::new(
                PgSqlErrorCode::ERRCODE_INSUFFICIENT_PRIVILEGE,
                format!(
                    "table \"{}.{}\" has trigger \"{}\" of role \"{}\"",
                    schema.name,
                    self.table(),
                    found.text("name"),
                    found.text("owner")
                ),
                "It would run with your rights. Drop it, or have its function belong to a superuser.",
            )),
        }
    }

    /// Switches them on or off.
    pub fn set(&self, schema: &ForeignSchema, ids: &[String], enabled: bool) {
        if !ids.is_empty() {
            schema.rows(&self.switch.replace("{ids}", &literal(ids)).replace("{enabled}", &enabled.to_string()));
        }
    }

    /// Those that are on.
    pub fn enabled_now(&self, schema: &ForeignSchema, ids: &[String]) -> Vec<String> {
        Switch::ids(self.enabled_now, schema, ids)
    }

    /// Has the table refuse that what is fired here is switched on there. As the extension's owner: the session says so.
    pub fn guard(&self, _session: &Session, schema: &ForeignSchema, source: &str) {
        let literals = [source, self.enabled].into_iter().chain(self.id.iter().copied()).map(foreign::literal);
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
