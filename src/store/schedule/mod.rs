//! `sched.schedule` as applications write it.

use std::panic::AssertUnwindSafe;

use pgrx::datum::{Interval, TimestampWithTimeZone, Uuid};
use pgrx::pg_sys::Oid;
use pgrx::{PgSqlErrorCode, PgTryBuilder};

use crate::pg::error::{raise, Failure};
use crate::pg::jsonb::Jsonb;
use crate::pg::record::Record;
use crate::pg::session::{List, Row};
use crate::pg::subtransaction::describe;
use crate::pg::{syscache, Session};
use crate::{arguments, statement};

pub mod ahead;
pub mod bulk;
pub mod change;
pub mod dropped;
pub mod dropped_heap;
pub mod group;
pub mod ownerless;
pub mod skipped_plans;
pub mod state;

/// A schedule's own columns, all of them checked.
#[derive(Clone, PartialEq)]
pub struct Definition {
    /// Its name.
    pub schedule_name: String,
    /// The clock as written.
    pub clock: String,
    /// The zone that the clock is read in.
    pub time_zone: String,
    /// The job that its executions run.
    pub job_name: String,
    /// What its executions carry.
    pub payload: Jsonb,
    /// With `scope_id`: what distinguishes its executions from others of the job.
    pub scope_kind: String,
    /// See `scope_kind`.
    pub scope_id: String,
    /// What becomes of missed plans.
    pub catch_up: String,
    /// A plan older than this does not run.
    pub catch_up_window: Option<Interval>,
    /// How many plans one tick may run.
    pub max_plans_per_tick: i32,
    /// When the next plan is armed.
    pub rearm: String,
    /// What becomes of a plan while an earlier run has not ended.
    pub overlap: String,
    /// Wait between plan and fire.
    pub delay: Interval,
    /// Upper bound of the wait that differs from plan to plan.
    pub jitter: Interval,
    /// First instant that may be a plan time.
    pub starts_at: Option<TimestampWithTimeZone>,
    /// First instant that may no longer be one.
    pub ends_at: Option<TimestampWithTimeZone>,
    /// Whether it is dispatched here.
    pub ownership: String,
    /// Whether it fires at all.
    pub enabled: bool,
    /// What somebody is to be told of.
    pub alerts: AlertSettings,
}

impl Definition {
    /// The scope of its executions.
    pub fn scope(&self) -> (&str, &str) {
        (&self.scope_kind, &self.scope_id)
    }
}

/// What somebody is to be told of a schedule, and how.
#[derive(Clone, Default, PartialEq)]
pub struct AlertSettings {
    /// From a plan time to the begin of its run.
    pub max_lateness: Option<Interval>,
    /// Of a run.
    pub max_duration: Option<Interval>,
    /// Without a run that succeeds.
    pub expect_success_within: Option<Interval>,
    /// Is given an execution for each alert.
    pub alert_job: Option<String>,
}

impl AlertSettings {
    /// Of a row that has them as its columns.
    fn of(row: &Row) -> AlertSettings {
        AlertSettings {
            max_lateness: row.get("max_lateness"),
            max_duration: row.get("max_duration"),
            expect_success_within: row.get("expect_success_within"),
            alert_job: row.get("alert_job"),
        }
    }
}

/// A schedule found and locked for an edit.
#[derive(Clone)]
pub struct Locked {
    /// Its number.
    pub schedule_id: i64,
    /// Its columns.
    pub definition: Definition,
    /// The anchor of `every`.
    pub created_at: TimestampWithTimeZone,
    /// By which name schedule_sql finds it, if it does.
    pub sql_pair: Option<String>,
    /// The group that keeps it.
    pub group_name: Option<String>,
    /// In a group: its scope_id where its declaration names none.
    pub default_scope_id: Option<String>,
}

/// Replaces all columns.
pub fn update(session: &Session, schedule_id: i64, schedule: Definition) {
    statement!(
        SCHEDULE_UPDATE = "schedule/schedule_update"(
            INT8OID,
            TEXTOID,
            TEXTOID,
            TEXTOID,
            TEXTOID,
            JSONBOID,
            TEXTOID,
            TEXTOID,
            TEXTOID,
            INTERVALOID,
            INT4OID,
            TEXTOID,
            TEXTOID,
            INTERVALOID,
            INTERVALOID,
            TIMESTAMPTZOID,
            TIMESTAMPTZOID,
            TEXTOID,
            BOOLOID,
            INTERVALOID,
            INTERVALOID,
            INTERVALOID,
            TEXTOID
        )
    );
    SCHEDULE_UPDATE.run(
        session,
        arguments![
            schedule_id,
            schedule.schedule_name,
            schedule.clock,
            schedule.time_zone,
            schedule.job_name,
            schedule.payload,
            schedule.scope_kind,
            schedule.scope_id,
            schedule.catch_up,
            schedule.catch_up_window,
            schedule.max_plans_per_tick,
            schedule.rearm,
            schedule.overlap,
            schedule.delay,
            schedule.jitter,
            schedule.starts_at,
            schedule.ends_at,
            schedule.ownership,
            schedule.enabled,
            schedule.alerts.max_lateness,
            schedule.alerts.max_duration,
            schedule.alerts.expect_success_within,
            schedule.alerts.alert_job
        ],
    );
}

/// What schedule names are unique by.
const NAME_KEY: &str = "schedule_schedule_name_key";

/// Whether the server's refusal of what is not unique is that of a name. The index stands in it by its own name, in quotes of the language
/// (lc_messages).
fn is_of_name(message: &str) -> bool {
    let of_a_name = |c: char| c.is_alphanumeric() || matches!(c, '_' | '$');
    message.split(|c| !of_a_name(c)).any(|word| word == NAME_KEY)
}

/// The same with another name. Where somebody has taken that since its caller looked, `duplicate` is the error of the statement: the server's
/// own in other words. It ends the transaction as that would, so no subtransaction is needed, each of which would cost memory and a
/// transaction id until the end of the transaction.
pub fn rename(session: &Session, schedule_id: i64, schedule: Definition, duplicate: impl Fn() -> Failure) {
    let duplicate = AssertUnwindSafe(duplicate);
    PgTryBuilder::new(AssertUnwindSafe(|| update(session, schedule_id, schedule)))
        .catch_when(PgSqlErrorCode::ERRCODE_UNIQUE_VIOLATION, |error| {
            if is_of_name(&describe(&error).1) {
                raise((*duplicate)());
            }
            error.rethrow()
        })
        .execute();
}

/// The schedule of this name, locked against other edits.
pub fn lock(session: &Session, schedule_name: &str) -> Option<Locked> {
    statement!(SCHEDULE_LOCK = "schedule/schedule_lock"(TEXTOID));
    let rows = SCHEDULE_LOCK.run(session, arguments![schedule_name]);
    rows.first().map(|row| Locked {
        schedule_id: row.get_required("schedule_id"),
        definition: Definition {
            schedule_name: schedule_name.to_owned(),
            clock: row.get_required("clock"),
            time_zone: row.get_required("time_zone"),
            job_name: row.get_required("job_name"),
            payload: row.get_required("payload"),
            scope_kind: row.get_required("scope_kind"),
            scope_id: row.get_required("scope_id"),
            catch_up: row.get_required("catch_up"),
            catch_up_window: row.get("catch_up_window"),
            max_plans_per_tick: row.get_required("max_plans_per_tick"),
            rearm: row.get_required("rearm"),
            overlap: row.get_required("overlap"),
            delay: row.get_required("delay"),
            jitter: row.get_required("jitter"),
            starts_at: row.get("starts_at"),
            ends_at: row.get("ends_at"),
            ownership: row.get_required("ownership"),
            enabled: row.get_required("enabled"),
            alerts: AlertSettings::of(&row),
        },
        created_at: row.get_required("created_at"),
        sql_pair: row.get("sql_pair"),
        group_name: row.get("group_name"),
        default_scope_id: row.get("default_scope_id"),
    })
}

/// What the schedule of a job of this role is called now that schedule_sql made by this name.
pub fn name_of_pair(session: &Session, pair: &str, owner: Oid) -> Option<String> {
    statement!(SCHEDULE_PAIR_NAME = "schedule/schedule_pair_name"(TEXTOID, OIDOID));
    SCHEDULE_PAIR_NAME.run(session, arguments![pair, owner]).first().map(|row| row.get_required("schedule_name"))
}

/// Has schedule_sql find a schedule by this name, or by none.
pub fn set_pair(session: &Session, schedule_id: i64, pair: Option<&str>) {
    statement!(SCHEDULE_PAIR_SET = "schedule/schedule_pair_set"(INT8OID, TEXTOID));
    SCHEDULE_PAIR_SET.run(session, arguments![schedule_id, pair]);
}

/// A schedule of a job that has executions in one of these scopes, now or before an edit.
pub fn in_scopes(session: &Session, job_name: &str, keys: Vec<Uuid>) -> Option<String> {
    statement!(SCHEDULE_IN_SCOPES = "schedule/schedule_in_scopes"(TEXTOID, UUIDARRAYOID));
    SCHEDULE_IN_SCOPES
        .run(session, arguments![job_name, List(keys)])
        .first()
        .map(|row| row.get_required("schedule_name"))
}

/// Whether a schedule of this name exists.
pub fn exists(session: &Session, schedule_name: &str) -> bool {
    statement!(SCHEDULE_NAME_TAKEN = "schedule/schedule_name_taken"(TEXTOID));
    SCHEDULE_NAME_TAKEN.run(session, arguments![schedule_name]).first().is_some()
}

/// Deletes; returns what the ledger has its executions by.
pub fn delete(session: &Session, schedule_id: i64) -> Vec<Uuid> {
    statement!(SCHEDULE_DELETE = "schedule/schedule_delete"(INT8OID));
    let keys: Option<Vec<Option<Uuid>>> =
        SCHEDULE_DELETE.run(session, arguments![schedule_id]).first().and_then(|row| row.get("keys"));
    keys.unwrap_or_default().into_iter().flatten().collect()
}

/// A schedule as the log names it, where several databases may have one of that name; by its number where it has just gone.
pub fn called(session: &Session, schedule_id: i64) -> String {
    statement!(SCHEDULE_NAME = "schedule/schedule_name"(INT8OID));
    let found = SCHEDULE_NAME.run(session, arguments![schedule_id]);
    let name =
        found.first().map_or_else(|| schedule_id.to_string(), |row| row.lossy("schedule_name").unwrap_or_default());
    format!("schedule \"{name}\" of database \"{}\"", syscache::database_name())
}

#[cfg(test)]
mod tests {
    use super::is_of_name;

    #[test]
    fn a_name_that_is_taken_is_known_in_every_language() {
        for quoted in ["\"?\"", "»?«", "« ? »", "“?”", "«?»", "「?」"] {
            let refusal = |index| format!("unique constraint {}", quoted.replace('?', index));
            assert!(is_of_name(&refusal("schedule_schedule_name_key")), "{quoted}");
            for other in [
                "one_clock",
                "my_schedule_schedule_name_key",
                "schedule_schedule_name_key1",
                "schedule_definition_order",
            ] {
                assert!(!is_of_name(&refusal(other)), "{quoted} {other}");
            }
        }
    }
}
