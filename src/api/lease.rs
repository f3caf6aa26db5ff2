//! `heartbeat`, `heartbeat_many`, `finish_success`, `finish_success_many`, `finish_failure`, `snooze`, `assert_lease`, `cancel`, `mark_stale_as_failed`.

use std::collections::HashMap;

use pgrx::datum::{Interval, TimestampWithTimeZone, Uuid};
use pgrx::prelude::*;
use pgrx::PgSqlErrorCode;
use scheduler_core::lease;
use scheduler_core::Instant;

use crate::dispatch::{self, Cancelled};
use crate::guc;
use crate::pg::array::Many;
use crate::pg::convert::{self, required, Zero};
use crate::pg::error::{or_raise, Failure, Outcome};
use crate::pg::jsonb::Jsonb;
use crate::pg::utf8_text::{BeginningOfText, Text};
use crate::pg::{acknowledge_durably, as_owner, role, session, Owner};
use crate::shmem::runners::runs;
use crate::shmem::wakeup;
use crate::store::database_clock;
use crate::store::execution;
use crate::store::lease::end::{Ending, Failing};
use crate::store::lease::{self as leases, sql as store, Ledger};
use crate::store::queue;

/// The largest `octet_length(result::text)`.
const MAX_RESULT_BYTES: usize = 16_384;

fn lease_lost() -> Failure {
    Failure::new(
        PgSqlErrorCode::ERRCODE_OBJECT_NOT_IN_PREREQUISITE_STATE,
        "lease lost",
        "Another runner has this execution, it has ended, or there is none of this id: stop the work and roll its transaction back.",
    )
}

/// The execution and token that every holder names; `22004`.
fn held(execution_id: Option<Uuid>, lease_token: Option<Uuid>) -> Outcome<(Uuid, Uuid)> {
    Ok((required("execution_id", execution_id)?, required("lease_token", lease_token)?))
}

/// The same of who ends a run or extends its lease.
fn held_by_client(execution_id: Option<Uuid>, lease_token: Option<Uuid>) -> Outcome<(Uuid, Uuid)> {
    let held = held(execution_id, lease_token)?;
    refuse_runs_of_server(&[held.0])?;
    Ok(held)
}

/// Whether a process of the server is on one of these runs.
fn server_runs_one_of(execution_ids: &[Uuid]) -> bool {
    // SAFETY: reads a global of the process.
    let database = unsafe { pg_sys::MyDatabaseId.to_u32() };
    runs::runs_one_of(database, execution_ids)
}

/// `55000` for runs of SQL jobs: they end with what they did, by their own process, whoever can read their token.
fn refuse_runs_of_server(execution_ids: &[Uuid]) -> Outcome<()> {
    if !server_runs_one_of(execution_ids) {
        return Ok(());
    }
    Err(Failure::new(
        PgSqlErrorCode::ERRCODE_OBJECT_NOT_IN_PREREQUISITE_STATE,
        "the run of an SQL job is ended by its own process",
        "Cancel it with sched.cancel, or let its command fail.",
    ))
}

fn check_owner(caller: pg_sys::Oid, owner: pg_sys::Oid, execution_id: Uuid) -> Outcome<()> {
    if role::may_act_for(caller, owner) {
        Ok(())
    } else {
        Err(Failure::not_owner("execution", &execution_id.to_string()))
    }
}

/// Ends the attempt that a lease is for, and has all hear of it.
fn end(owner: &Owner, caller: pg_sys::Oid, run: (Uuid, Uuid), ending: Ending, now: Instant) -> Outcome<()> {
    let ended = Ledger::open(owner).end(run, ending, now).ok_or_else(lease_lost)?;
    check_owner(caller, ended.owner, ended.execution_id)?;
    dispatch::announce(|| owner.session(), &[ended], now);
    Ok(())
}

#[pg_extern(schema = "sched", volatile, parallel_unsafe)]
fn heartbeat(
    execution_id: Option<Uuid>,
    lease_token: Option<Uuid>,
    stale_timeout: default!(Option<Interval>, "NULL"),
    progress: default!(Option<Jsonb>, "NULL"),
) -> String {
    or_raise((|| {
        let (id, token) = held_by_client(execution_id, lease_token)?;
        let timeout = convert::optional_duration("stale_timeout", stale_timeout, Zero::Refused)?;
        let (caller, now) = (role::caller(), database_clock::now());
        let beaten =
            as_owner(|owner| leases::heartbeat(owner, id, token, timeout.map(convert::interval), progress, now));
        let (owner, cancel_requested) = beaten.ok_or_else(lease_lost)?;
        check_owner(caller, owner, id)?;
        if let Some(stale_after) = timeout.and_then(|timeout| now.checked_add_micros(timeout)) {
            wakeup::at_commit(stale_after);
        }
        Ok(if cancel_requested { "cancel" } else { "ok" }.to_owned())
    })())
}

#[pg_extern(schema = "sched", volatile, parallel_unsafe)]
fn heartbeat_many(
    execution_ids: Option<Many<Uuid>>,
    lease_tokens: Option<Many<Uuid>>,
) -> TableIterator<'static, (name!(execution_id, Uuid), name!(answer, String))> {
    let answers = or_raise((|| {
        let runs = pairs(
            none_null("execution_ids", required("execution_ids", execution_ids)?)?,
            none_null("lease_tokens", required("lease_tokens", lease_tokens)?)?,
        )?;
        // A run of the server is nobody's to extend. By id, none twice: as the store asks for.
        let mut ordered: Vec<(Uuid, Uuid)> = runs.iter().filter(|run| !server_runs_one_of(&[run.0])).copied().collect();
        ordered.sort_unstable_by_key(bytes);
        ordered.dedup_by_key(|run| bytes(run));
        let (caller, now) = (role::caller(), database_clock::now());
        let beaten: HashMap<_, bool> = as_owner(|owner| leases::heartbeat_many(owner, &ordered, now, caller))
            .into_iter()
            .map(|(run, cancel_requested)| (bytes(&run), cancel_requested))
            .collect();
        let answer = |run: (Uuid, Uuid)| {
            let answer = match beaten.get(&bytes(&run)) {
                Some(true) => "cancel",
                Some(false) => "ok",
                None => "lost",
            };
            (run.0, answer.to_owned())
        };
        Ok(runs.into_iter().map(answer).collect::<Vec<_>>())
    })());
    TableIterator::new(answers)
}

/// What a pair is ordered and found by.
fn bytes(run: &(Uuid, Uuid)) -> ([u8; 16], [u8; 16]) {
    (*run.0.as_bytes(), *run.1.as_bytes())
}

/// An array without NULLs; `22004`.
fn none_null<T>(argument: &str, values: Many<T>) -> Outcome<Vec<T>> {
    values.into_iter().collect::<Option<Vec<T>>>().ok_or_else(|| {
        Failure::new(
            PgSqlErrorCode::ERRCODE_NULL_VALUE_NOT_ALLOWED,
            format!("{argument} must not contain NULL"),
            "Leave out executions that you do not have.",
        )
    })
}

/// Ids and tokens by position; `22023`.
fn pairs(ids: Vec<Uuid>, tokens: Vec<Uuid>) -> Outcome<Vec<(Uuid, Uuid)>> {
    if ids.len() != tokens.len() {
        return Err(Failure::invalid(
            format!("execution_ids has {} elements, but lease_tokens has {}", ids.len(), tokens.len()),
            "Pass one token for each execution, in the same order.",
        ));
    }
    Ok(ids.into_iter().zip(tokens).collect())
}

#[pg_extern(schema = "sched", volatile, parallel_unsafe)]
fn finish_success(
    execution_id: Option<Uuid>,
    lease_token: Option<Uuid>,
    rows_affected: default!(Option<i64>, "NULL"),
    result: default!(Option<Jsonb>, "'{}'"),
) {
    or_raise((|| {
        let (id, token) = held_by_client(execution_id, lease_token)?;
        let result = required("result", result)?;
        let (caller, now) = (role::caller(), database_clock::now());
        as_owner(|owner| {
            let size = result.text_size();
            if size > MAX_RESULT_BYTES {
                return Err(Failure::new(
                    PgSqlErrorCode::ERRCODE_PROGRAM_LIMIT_EXCEEDED,
                    format!("result is too large: {size} bytes"),
                    format!("Keep it within {MAX_RESULT_BYTES} bytes, and larger things in a table of your own."),
                ));
            }
            end(owner, caller, (id, token), Ending::Success { rows_affected, result }, now)
        })?;
        acknowledge_durably();
        Ok(())
    })());
}

#[pg_extern(schema = "sched", volatile, parallel_unsafe)]
fn finish_failure(
    execution_id: Option<Uuid>,
    lease_token: Option<Uuid>,
    error_code: default!(Option<Text>, "'handler_error'"),
    error_msg: default!(Option<BeginningOfText>, "''"),
    next_retry_at: default!(Option<TimestampWithTimeZone>, "NULL"),
    terminal: default!(Option<bool>, "false"),
) {
    or_raise((|| {
        let (id, token) = held_by_client(execution_id, lease_token)?;
        let error_code = convert::name("error_code", error_code)?;
        let message = String::from(required("error_msg", error_msg)?);
        let retry_at = convert::optional_instant("next_retry_at", next_retry_at)?;
        let terminal = required("terminal", terminal)?;
        if terminal && retry_at.is_some() {
            return Err(Failure::invalid(
                "a terminal failure has no next_retry_at",
                "Pass terminal => true or next_retry_at, not both.",
            ));
        }
        let (caller, now) = (role::caller(), database_clock::now());
        let decide = |run: &Failing| {
            let next = lease::failed(run.limits, terminal, run.cancel_requested);
            dispatch::end_of(run, next, retry_at, now)
        };
        let failure = Ending::Failure { error_code: &error_code, error_msg: &message, decide: &decide };
        as_owner(|owner| end(owner, caller, (id, token), failure, now))?;
        acknowledge_durably();
        Ok(())
    })());
}

#[pg_extern(schema = "sched", volatile, parallel_unsafe)]
fn snooze(execution_id: Option<Uuid>, lease_token: Option<Uuid>, until: Option<TimestampWithTimeZone>) {
    or_raise((|| {
        let run = held_by_client(execution_id, lease_token)?;
        let until = convert::instant("until", required("until", until)?)?;
        let (caller, now) = (role::caller(), database_clock::now());
        session(|session| -> Outcome<()> {
            let given_back = store::snooze(session, run, until, now).ok_or_else(lease_lost)?;
            check_owner(caller, given_back.owner, given_back.execution_id)?;
            dispatch::announce(|| session, &[given_back], now);
            Ok(())
        })?;
        acknowledge_durably();
        Ok(())
    })());
}

#[pg_extern(schema = "sched", volatile, parallel_unsafe)]
fn finish_success_many(
    execution_ids: Option<Many<Uuid>>,
    lease_tokens: Option<Many<Uuid>>,
) -> SetOfIterator<'static, Uuid> {
    let lost = or_raise((|| {
        let ids = all_given("execution_ids", required("execution_ids", execution_ids)?)?;
        let tokens = all_given("lease_tokens", required("lease_tokens", lease_tokens)?)?;
        let runs = pairs(ids.clone(), tokens)?;
        let (caller, now) = (role::caller(), database_clock::now());
        refuse_runs_of_server(&ids)?;
        let noted = as_owner(|owner| {
            let noted = Ledger::open(owner).finish_success_many(&runs, now, caller);
            for run in noted.iter().filter(|run| run.ended) {
                if let Some(schedule_id) = run.awaited_by {
                    store::run_ended(owner.session(), schedule_id, run.execution_id, now);
                    wakeup::at_commit(now);
                }
            }
            noted
        });
        let lost: Vec<Uuid> = noted.into_iter().filter(|run| !run.ended).map(|run| run.execution_id).collect();
        if lost.len() < runs.len() {
            acknowledge_durably();
        }
        Ok(lost)
    })());
    SetOfIterator::new(lost)
}

/// An array without NULLs; `22023`.
pub fn all_given<T>(argument: &str, values: Many<T>) -> Outcome<Vec<T>> {
    values.into_iter().collect::<Option<Vec<T>>>().ok_or_else(|| {
        Failure::invalid(format!("{argument} must not contain NULL"), "Leave out executions that you do not have.")
    })
}

#[pg_extern(schema = "sched", volatile, parallel_unsafe)]
fn assert_lease(execution_id: Option<Uuid>, lease_token: Option<Uuid>) {
    or_raise((|| {
        let (id, token) = held(execution_id, lease_token)?;
        let caller = role::caller();
        let owner = session(|session| store::lock(session, id, token)).ok_or_else(lease_lost)?;
        check_owner(caller, owner, id)
    })());
}

#[pg_extern(schema = "sched", volatile, parallel_unsafe)]
fn cancel(execution_id: Option<Uuid>) -> bool {
    or_raise((|| {
        let id = required("execution_id", execution_id)?;
        let (caller, now) = (role::caller(), database_clock::now());
        session(|session| {
            let Some((_, owner)) = execution::state(session, id, now) else { return Ok(false) };
            check_owner(caller, owner, id)?;
            let cancelled = dispatch::cancel(session, id, now);
            // (A run of the server is signalled. And a transaction that notifies cannot be prepared.)
            if cancelled == Cancelled::Asked && !server_runs_one_of(&[id]) && guc::notify() && queue::notify::has_room()
            {
                queue::notify::cancelled(id);
            }
            Ok(cancelled != Cancelled::TooLate)
        })
    })())
}

#[pg_extern(schema = "sched", volatile, parallel_unsafe)]
fn mark_stale_as_failed(job_name: default!(Option<Text>, "NULL")) -> i64 {
    or_raise((|| {
        let job_name = job_name.map(|name| convert::name("job_name", Some(name))).transpose()?;
        let caller = role::caller();
        let batch = guc::batch_size();
        let mut total = 0;
        loop {
            let swept = session(|session| {
                dispatch::sweep_stale(session, job_name.as_deref(), database_clock::now(), batch, caller)
            });
            total += i64::try_from(swept.ended).unwrap_or(0);
            if swept.seen == 0 {
                return Ok(total);
            }
            pgrx::check_for_interrupts!();
        }
    })())
}
