//! What the extension `scheduler_cron` calls, which is SQL alone. Nobody is granted it.

use std::ffi::CString;

use pgrx::prelude::*;
use scheduler_core::job::Kind;
use scheduler_core::schedule::{CatchUp, Overlap};
use scheduler_core::Keyword;

use crate::pg::convert::{self, required};
use crate::pg::error::{or_raise, Failure};
use crate::pg::parse::{self, Strings};
use crate::pg::utf8_text::Text;
use crate::pg::{role, session};
use crate::store::database_clock;
use crate::store::schedule::{bulk, Definition};
use crate::store::{handover, identity, job, shard};

use crate::api::job::{self as jobs, Runs};
use crate::api::schedule;

/// How many statements the command of an SQL job has: `scheduler_cron` runs one alone, and several in one transaction. `22023`, `54000`,
/// `42601`, `0A000` where it could not run.
#[pg_extern(schema = "sched_internal", volatile, parallel_unsafe)]
fn command_statements(command: Option<Text>) -> i32 {
    or_raise((|| {
        let command = String::from(required("command", command)?);
        parse::check(&command, Strings::STANDARD)?;
        let count = parse::count(&CString::new(command).unwrap_or_default(), Strings::STANDARD)?;
        Ok(i32::try_from(count).unwrap_or(i32::MAX))
    })())
}

/// Has a job of kind sql run another command. For `scheduler_cron`, which has asked for the right by pg_cron's rules.
#[pg_extern(schema = "sched_internal", volatile, parallel_unsafe)]
fn alter_sql_job(job_name: Option<Text>, command: Option<Text>) {
    or_raise((|| {
        let name = convert::name("job_name", job_name)?;
        let command = String::from(required("command", command)?);
        parse::check(&command, Strings::STANDARD)?;
        let own_transactions =
            parse::count(&CString::new(command.as_str()).unwrap_or_default(), Strings::STANDARD)? == 1;
        let caller = role::caller();
        session(|session| {
            let Some((_, before)) = job::lock_definition(session, &name) else {
                return Err(Failure::unknown("job", &name, "Look for its name in the view cron.job."));
            };
            let new = job::Definition { command: Some(command), own_transactions, ..before };
            jobs::check(&new)?;
            jobs::write(session, &new, caller, Runs::Theirs)
        })
    })());
}

/// Makes an SQL job of `owner` and its schedule, both of this name, and returns the schedule: where something has the name, or another session
/// takes it first, nothing is made, and NULL is returned (`40001` where only a newer snapshot would see it). Nothing that exists is changed.
/// For `scheduler_cron`: one run at a time and one that waits, and nothing for what was missed.
#[pg_extern(schema = "sched_internal", volatile, parallel_unsafe)]
fn create_sql_job(
    job_name: Option<Text>,
    clock: Option<Text>,
    command: Option<Text>,
    time_zone: Option<Text>,
    owner: Option<pg_sys::Oid>,
    enabled: Option<bool>,
) -> Option<i64> {
    or_raise((|| {
        let name = convert::name("job_name", job_name)?;
        let command = String::from(required("command", command)?);
        parse::check(&command, Strings::STANDARD)?;
        let statements = parse::count(&CString::new(command.as_str()).unwrap_or_default(), Strings::STANDARD)?;
        let job = job::Definition {
            command: Some(command),
            own_transactions: statements == 1,
            ..jobs::defaults(name.clone(), Kind::Sql)
        };
        jobs::check(&job)?;
        let (clock, zone) = (required("clock", clock)?.into(), required("time_zone", time_zone)?.into());
        let definition = schedule::armed_as_its_clock_says(Definition {
            overlap: Overlap::BufferOne.as_str().to_owned(),
            catch_up: CatchUp::SkipMissed.as_str().to_owned(),
            enabled: required("enabled", enabled)?,
            ..schedule::defaults(name.clone(), clock, name.clone(), Some(zone), None)
        });
        schedule::check(&definition, None)?;
        let owner = required("owner", owner)?;
        session(|session| {
            shard::require_to_write(|| session, [definition.scope()])?;
            if !handover::names_taken(session, vec![name.clone()]).is_empty()
                || handover::insert_jobs(session, &[(&job, owner)]).is_empty()
            {
                return Ok(None);
            }
            identity::settle(session);
            let made = bulk::insert(session, vec![definition], database_clock::now());
            if made.is_empty() {
                handover::delete_jobs(session, vec![name]);
            }
            Ok(made.first().map(|(_, schedule_id)| *schedule_id))
        })
    })())
}
