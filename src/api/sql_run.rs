//! `this_run`, `test_job`.

use pgrx::datum::{TimestampWithTimeZone, Uuid};
use pgrx::prelude::*;
use pgrx::PgSqlErrorCode;
use scheduler_core::job::Kind;
use scheduler_core::Keyword;
use std::ffi::CString;
use std::time::Instant;

use crate::execute::{self, Captured, CommandError, Output, Statements, Transactions};
use crate::pg::convert::{self, required};
use crate::pg::error::{or_raise, raise, Failure, Outcome};
use crate::pg::jsonb::Jsonb;
use crate::pg::utf8_text::Text;
use crate::pg::{role, run_settings, session, subtransaction};
use crate::store::grants;
use crate::store::runner::current::{current, CurrentRun, OnRun};
use crate::store::runner::{self as store, RunJob};

use crate::api::job as jobs;
use crate::api::result::TableIterator;

#[pg_extern(schema = "sched", stable, parallel_restricted)]
#[allow(clippy::type_complexity)]
fn this_run() -> TableIterator<
    'static,
    (
        name!(execution_id, Option<Uuid>),
        name!(job_name, String),
        name!(schedule_name, Option<String>),
        name!(scope_kind, Option<String>),
        name!(scope_id, Option<String>),
        name!(plan_time, TimestampWithTimeZone),
        name!(attempt, i32),
        name!(payload, Jsonb),
    ),
> {
    TableIterator::new(current().into_iter().map(|run| {
        (
            run.execution_id,
            run.job_name,
            run.schedule_name,
            run.scope_kind,
            run.scope_id,
            run.plan_time,
            run.attempt,
            run.payload,
        )
    }))
}

#[pg_extern(schema = "sched", volatile, parallel_unsafe)]
#[allow(clippy::type_complexity)]
fn test_job(
    job_name: Option<Text>,
    payload: default!(Option<Jsonb>, "'{}'"),
    plan_time: default!(Option<TimestampWithTimeZone>, "sched.now()"),
) -> TableIterator<
    'static,
    (
        name!(ok, bool),
        name!(duration_ms, i64),
        name!(rows_affected, Option<i64>),
        name!(result, Jsonb),
        name!(error_code, Option<String>),
        name!(error_msg, Option<String>),
    ),
> {
    let row = or_raise((|| {
        let job_name = convert::name("job_name", job_name)?;
        let payload = required("payload", payload)?;
        let plan_time = required("plan_time", plan_time)?;
        convert::instant("plan_time", plan_time)?;
        let (command, settings) = testable(&job_name)?;
        let run = CurrentRun {
            execution_id: None,
            job_name,
            schedule_name: None,
            scope_kind: None,
            scope_id: None,
            plan_time,
            attempt: 1,
            payload,
        };
        Ok(test(run, &command, &settings))
    })());
    TableIterator::once(row)
}

type Settings = Vec<(String, String)>;

/// What a test of this job runs.
fn testable(job_name: &str) -> Outcome<(CString, Settings)> {
    let job = session(|session| store::read_job(session, job_name));
    let job: RunJob =
        job.ok_or_else(|| Failure::unknown("job", job_name, "Define it with sched.define_job or sched.schedule_sql."))?;
    let caller = role::caller();
    if !role::may_act_for(caller, job.owner) {
        return Err(Failure::not_owner("job", job_name));
    }
    // The command is the owner's, and would run as the caller.
    if !role::exists(job.owner) {
        return Err(jobs::orphan(job_name, job.owner));
    }
    let is_member = || session(|session| grants::is_member_by_grant(session, caller, job.owner));
    if role::is_superuser(caller) && job.owner != caller && !is_member() {
        let owner = role::quoted(job.owner);
        return Err(Failure::new(
            PgSqlErrorCode::ERRCODE_INSUFFICIENT_PRIVILEGE,
            format!("job \"{job_name}\" belongs to role {owner}, whose command would run as a superuser"),
            format!("Run SET ROLE {owner} first: the command runs as the role that calls."),
        ));
    }
    let refused =
        |message: String, hint: &str| Err(Failure::new(PgSqlErrorCode::ERRCODE_FEATURE_NOT_SUPPORTED, message, hint));
    if Kind::parse(&job.kind) != Some(Kind::Sql) {
        return refused(
            format!("job \"{job_name}\" is of kind \"{}\" and has no command to test", job.kind),
            "Only jobs of kind 'sql' run in the server.",
        );
    }
    if job.own_transactions {
        return refused(
            format!("job \"{job_name}\" runs in transactions of its own, which cannot be rolled back"),
            "Run its statements by hand, or sched.fire_now for one of its schedules.",
        );
    }
    let command = CString::new(job.command.unwrap_or_default()).unwrap_or_default();
    Ok((command, run_settings::read(&job.settings)?))
}

type TestRow = (bool, i64, Option<i64>, Jsonb, Option<String>, Option<String>);

fn test(run: CurrentRun, command: &CString, settings: &Settings) -> TestRow {
    let job_name = run.job_name.clone();
    let _current = OnRun::begin(run);
    let _captured = Captured::begin();
    let (began, mut output, mut count) = (Instant::now(), Output::default(), 0);
    let result = rolled_back(|| {
        // SAFETY: in a subtransaction of the caller's statement, whose abort takes all of it back.
        unsafe {
            run_settings::apply(settings);
            let statements = or_raise(Statements::parse(command, run_settings::strings(settings)));
            count = statements.len();
            execute::run(command, &statements, Transactions::Inside, &mut output);
            subtransaction::set_constraints_immediate();
        }
    });
    let duration_ms = i64::try_from(began.elapsed().as_millis()).unwrap_or(i64::MAX);
    match result {
        Ok(()) => (true, duration_ms, output.rows_affected(), output.result(), None, None),
        Err(error) if error.sqlstate == "57014" => {
            raise(Failure::new(PgSqlErrorCode::ERRCODE_QUERY_CANCELED, error.message, ""))
        }
        Err(mut error) => {
            let hint = execute::transaction_hint(&error, output.statement(), &job_name, false);
            error.hint = error.hint.or(hint);
            let text = error.text(&command.to_string_lossy(), &output.place(count));
            (false, duration_ms, None, output.result(), Some(error.sqlstate), Some(text))
        }
    }
}

/// Runs `body` in a subtransaction that is rolled back whatever comes of it.
fn rolled_back(body: impl FnOnce()) -> Result<(), Box<CommandError>> {
    // SAFETY: memory context and resource owner are those of before on both ways out.
    unsafe {
        let (context, owner) = (pg_sys::CurrentMemoryContext, pg_sys::CurrentResourceOwner);
        pg_sys::BeginInternalSubTransaction(std::ptr::null());
        pg_sys::MemoryContextSwitchTo(context);
        let result = execute::caught(body);
        pg_sys::MemoryContextSwitchTo(context);
        pg_sys::RollbackAndReleaseCurrentSubTransaction();
        execute::forget_failed();
        pg_sys::MemoryContextSwitchTo(context);
        pg_sys::CurrentResourceOwner = owner;
        result
    }
}
