//! How rows of another scheduler are switched off and on, for `take_over` and `hand_back`.

use scheduler_core::Instant;

use crate::pg::Session;
use crate::store::handover::foreign::{self, ForeignSchema};

/// A scheduler whose rows can be taken over in one transaction. Statements are files of `sql/query/handover`, with `{schema}`, and `{ids}` for
/// an array of source ids as text.
pub struct Switch {
    /// The table that says whether a row is on.
    pub table: &'static str,
    /// Its column for that.
    pub enabled: &'static str,
    /// Its columns that are the source id, one behind the other with a slash between.
    pub id: &'static [&'static str],
    /// Locks rows; returns `id` and `enabled`.
    pub lock: &'static str,
    /// Returns `id` of a run that goes on.
    pub running: &'static str,
    /// Switches rows on or off (`{enabled}`).
    pub switch: &'static str,
    /// Returns `id` of those that are on.
    pub enabled_now: &'static str,
    /// How long after a plan time it may still begin with that, in microseconds.
    pub settles: i64,
    /// How long before the next one it has to know, in microseconds.
    pub warning: i64,
}

/// Ids as the literal of an array.
fn literal(ids: &[String]) -> String {
    let elements: Vec<String> =
        ids.iter().map(|id| format!("\"{}\"", id.replace('\\', "\\\\").replace('"', "\\\""))).collect();
    format!("'{{{}}}'", elements.join(",").replace('\'', "''"))
}

impl Switch {
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
        let (name, table) = (foreign::quoted(GUARD), foreign::quoted(self.table));
        let arguments: Vec<String> = [source, self.enabled]
            .iter()
            .chain(self.id)
            .map(|text| format!("'{}'", text.replace('\'', "''")))
            .collect();
        schema.rows(&format!(
            "CREATE OR REPLACE TRIGGER {name} BEFORE INSERT OR UPDATE ON {{schema}}.{table} FOR EACH ROW EXECUTE FUNCTION sched_internal.guard_taken_over({})",
            arguments.join(", ")
        ));
        schema.rows(&format!("ALTER TABLE {{schema}}.{table} ENABLE ALWAYS TRIGGER {name}"));
        schema.rows(&format!("ALTER TRIGGER {name} ON {{schema}}.{table} DEPENDS ON EXTENSION scheduler"));
    }

    /// Takes that away again.
    pub fn unguard(&self, _session: &Session, schema: &ForeignSchema) {
        let (name, table) = (foreign::quoted(GUARD), foreign::quoted(self.table));
        schema.rows(&format!("DROP TRIGGER IF EXISTS {name} ON {{schema}}.{table}"));
    }
}

/// The trigger's name.
const GUARD: &str = "scheduler_guard";

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
