//! What the #[pg_test]s share: SQL in, text out.
//!
//! A test is one transaction that is rolled back, so only its own rows exist. Tests run side by side: names of schedules and
//! roles are a test's own, or one would wait for the other.
#![allow(dead_code, missing_docs, clippy::unwrap_used, clippy::expect_used, clippy::panic, reason = "test code")]

use std::ffi::{CStr, CString};
use std::sync::atomic::{AtomicUsize, Ordering};

use pgrx::{pg_guard, pg_sys, Spi};

pub mod grid;
pub mod random;
pub mod tables;

pub use tables::HEADS_ARE_NEW;
use tables::*;

/// Runs one statement; its rows as psql -At shows them: `|` between columns, a newline between rows, nothing for NULL.
pub fn sql(statement: &str) -> String {
    let text = CString::new(statement).unwrap();
    // SAFETY: SPI is connected; the result is read before it is gone.
    Spi::connect(|_| unsafe {
        let code = pg_sys::SPI_execute(text.as_ptr(), false, 0);
        assert!(code >= 0, "SPI code {code} for {statement}");
        let table = pg_sys::SPI_tuptable;
        if table.is_null() {
            return String::new();
        }
        let (count, description) = (pg_sys::SPI_processed as usize, (*table).tupdesc);
        let columns = (*description).natts;
        let cell = |row: usize, column: i32| {
            let value = pg_sys::SPI_getvalue(*(*table).vals.add(row), description, column);
            if value.is_null() {
                String::new()
            } else {
                CStr::from_ptr(value).to_string_lossy().into_owned()
            }
        };
        let line = |row| (1..=columns).map(|column| cell(row, column)).collect::<Vec<_>>().join("|");
        (0..count).map(line).collect::<Vec<_>>().join("\n")
    })
}

/// Runs a query and compares what it returns.
#[track_caller]
pub fn check(statement: &str, expected: &str) {
    assert_eq!(sql(statement), expected, "{statement}");
}

/// Runs statements one after the other.
pub fn run(statements: &[&str]) {
    for statement in statements {
        sql(statement);
    }
}

/// What users read.
pub fn views() -> Vec<String> {
    let names = sql("SELECT relname FROM pg_class WHERE relnamespace = 'sched'::regnamespace AND relkind = 'v'");
    assert!(names.lines().count() >= 7, "{names}");
    names.lines().map(str::to_owned).collect()
}

/// Sets `sched.fast_path` in this session, as a reload would.
pub fn set_fast_path(on: bool) {
    let value = if on { c"on" } else { c"off" };
    // SAFETY: C strings that Postgres copies.
    unsafe {
        let (context, source) = (pg_sys::GucContext::PGC_SIGHUP, pg_sys::GucSource::PGC_S_OVERRIDE);
        pg_sys::SetConfigOption(c"sched.fast_path".as_ptr(), value.as_ptr(), context, source);
    }
}

/// How many statements `body` has the executor run, those inside of functions included.
pub fn executed(body: impl FnOnce()) -> usize {
    static COUNT: AtomicUsize = AtomicUsize::new(0);
    static mut NEXT: pg_sys::ExecutorStart_hook_type = None;
    #[pg_guard]
    unsafe extern "C-unwind" fn count(query: *mut pg_sys::QueryDesc, flags: i32) {
        COUNT.fetch_add(1, Ordering::Relaxed);
        // SAFETY: what the server would have called.
        unsafe {
            match NEXT {
                Some(next) => next(query, flags),
                None => pg_sys::standard_ExecutorStart(query, flags),
            }
        }
    }
    // SAFETY: the backend's only thread; the hook is put back.
    unsafe {
        NEXT = pg_sys::ExecutorStart_hook;
        pg_sys::ExecutorStart_hook = Some(count);
        let before = COUNT.load(Ordering::Relaxed);
        body();
        pg_sys::ExecutorStart_hook = NEXT;
        COUNT.load(Ordering::Relaxed) - before
    }
}

/// An error as the user sees it.
#[derive(Debug)]
pub struct Refusal {
    pub sqlstate: String,
    pub message: String,
    pub hint: String,
}

/// Runs a statement in a subtransaction; the error that it ends with, `None` where it ends with none.
pub fn attempt(statement: &str) -> Option<Refusal> {
    if sql("SELECT to_regprocedure('pg_temp.attempt(text)') IS NULL") == "t" {
        sql("CREATE FUNCTION pg_temp.attempt(statement text) RETURNS text LANGUAGE plpgsql AS $$
         DECLARE code text; said text; advice text;
         BEGIN
             EXECUTE statement;
             RETURN '';
         EXCEPTION WHEN OTHERS THEN
             GET STACKED DIAGNOSTICS code = RETURNED_SQLSTATE, said = MESSAGE_TEXT, advice = PG_EXCEPTION_HINT;
             RETURN concat_ws(E'\\x1f', code, said, advice);
         END $$");
    }
    let answer = sql(&format!("SELECT pg_temp.attempt({})", quote(statement)));
    let mut parts = answer.split('\u{1f}').map(str::to_owned);
    let sqlstate = parts.next().filter(|code| !code.is_empty())?;
    Some(Refusal { sqlstate, message: parts.next().unwrap_or_default(), hint: parts.next().unwrap_or_default() })
}

/// The statement fails with this SQLSTATE.
#[track_caller]
pub fn fails(statement: &str, sqlstate: &str) -> Refusal {
    let before = everything();
    let refusal = attempt(statement).unwrap_or_else(|| panic!("no error from {statement}"));
    assert_eq!(refusal.sqlstate, sqlstate, "{}: {statement}", refusal.message);
    assert_eq!(everything(), before, "something was written by {statement}");
    refusal
}

/// The same, with a message in the house style and a hint that is a sentence.
#[track_caller]
pub fn refused(statement: &str, sqlstate: &str) -> Refusal {
    let refusal = fails(statement, sqlstate);
    let Refusal { message, hint, .. } = &refusal;
    assert!(hint.starts_with(char::is_uppercase) && hint.ends_with('.'), "hint {hint:?} of {statement}");
    assert!(!message.starts_with(char::is_uppercase) && !message.ends_with('.'), "message {message:?} of {statement}");
    refusal
}

/// How many rows each table has, as a fingerprint of what this transaction wrote.
fn everything() -> String {
    sql(&format!("SELECT (SELECT count(*) FROM sched.job), (SELECT count(*) FROM sched.schedule), (SELECT count(*) FROM {TIMER_TABLE}),
                (SELECT count(*) FROM sched.ledger), (SELECT count(*) FROM {READY_TABLE}), (SELECT count(*) FROM {DELAYED_TABLE}), (SELECT count(*) FROM sched.paused_queue), (SELECT count(*) FROM sched.cancel_request), (SELECT max(buckets::text) FROM sched.shard),
                (SELECT count(*) FROM {LEASE_TABLE}), (SELECT count(*) FROM sched.awaited), (SELECT count(*) FROM sched.unique_scope), (SELECT count(*) FROM sched.imported WHERE taken_over_at IS NULL), (SELECT count(*) FROM sched.imported), (SELECT count(*) FROM sched.reported_fire),
                (SELECT count(*) FROM sched.schedule_change), (SELECT count(*) FROM sched.skip), (SELECT count(*) FROM sched.alert_watch), (SELECT md5(string_agg(a::text, '')) FROM sched.alert a), (SELECT md5(string_agg(j::text, '')) FROM sched.job j),
                (SELECT md5(string_agg(s::text, '')) FROM sched.schedule s),
                (SELECT md5(string_agg(e::text, '')) FROM sched.ledger e), (SELECT md5(string_agg(r::text, '')) FROM {READY_TABLE} r), (SELECT md5(string_agg(r::text, '')) FROM {DELAYED_TABLE} r), (SELECT md5(string_agg(l::text, '')) FROM {LEASE_TABLE} l)"))
}

/// Takes all tables for itself, and what GRANT writes to, all at once and holding nothing meanwhile: for a test that changes tables or
/// empties them. The tests beside it would meet its locks crosswise, so a test calls this before anything else.
pub fn alone() {
    let tables = sql("SELECT string_agg('sched.' || relname, ', ') FROM pg_class WHERE relnamespace = 'sched'::regnamespace AND relkind = 'r'");
    let take = format!(
        "DO $do$BEGIN LOCK TABLE {tables} IN ACCESS EXCLUSIVE MODE NOWAIT;
         PERFORM FROM pg_namespace WHERE nspname IN ('sched', 'sched_internal') FOR UPDATE NOWAIT;
         PERFORM FROM pg_class WHERE relnamespace IN ('sched'::regnamespace, 'sched_internal'::regnamespace) FOR UPDATE NOWAIT;
         PERFORM FROM pg_proc WHERE pronamespace IN ('sched'::regnamespace, 'sched_internal'::regnamespace) FOR UPDATE NOWAIT; END$do$"
    );
    while let Some(refusal) = attempt(&take) {
        assert_eq!(refusal.sqlstate, "55P03", "{}", refusal.message);
        run(&["SELECT pg_sleep(0.01)"]);
    }
}

/// To be said first by a test that grants: two GRANTs meet each other crosswise in the catalogs.
pub fn granting() {
    run(&["SELECT pg_advisory_xact_lock(hashtext('granting'))"]);
}

/// A text as an SQL literal.
pub fn quote(text: &str) -> String {
    let doubled = text.replace('\'', "''");
    if doubled.contains('\\') {
        format!("E'{}'", doubled.replace('\\', "\\\\"))
    } else {
        format!("'{doubled}'")
    }
}

/// A schedule with these arguments, after name, clock and job; the job is a pull job of its own, whose executions are tried once.
pub fn created(name: &str, clock: &str, arguments: &str) {
    let job = quote(&format!("job of {name}"));
    let separator = if arguments.is_empty() { "" } else { ", " };
    run(&[
        &format!("SELECT sched.define_job({job}, max_attempts => 1) WHERE NOT EXISTS (SELECT FROM sched.job WHERE job_name = {job})"),
        &format!("SELECT sched.create_schedule({}, {}, {job}{separator}{arguments})", quote(name), quote(clock)),
    ]);
}

/// Dispatches what is due, and says how many executions that has to make.
#[track_caller]
pub fn dispatch(expected: i64) {
    assert_eq!(sql("SELECT sched.dispatch_due()"), expected.to_string());
}

/// Claims one execution of a queue: its id and the token.
#[track_caller]
pub fn claim_one(queue: &str) -> (String, String) {
    let lease = sql(&format!("SELECT execution_id, lease_token FROM sched.claim({})", quote(queue)));
    let (id, token) = lease.split_once('|').expect("nothing to claim");
    (id.to_owned(), token.to_owned())
}

/// The state of a schedule.
pub fn state(name: &str) -> String {
    sql(&format!("SELECT state FROM sched.schedules WHERE schedule_name = {}", quote(name)))
}

/// Whether a schedule is armed for a time that is still to come.
pub fn armed(name: &str) -> String {
    sql(&format!(
        "SELECT state = 'armed' AND next_plan_time > clock_timestamp() AND next_fire_at >= next_plan_time
           FROM sched.schedules WHERE schedule_name = {}",
        quote(name)
    ))
}

/// Lets time pass: every time that was stored moves into the past. Schedules with starts_at or ends_at would get a new
/// baseline from it, so do not mix the two.
pub fn time_passes(interval: &str) {
    let by = format!("interval {}", quote(interval));
    let last = sql("SELECT COALESCE(max(change_id), 0) FROM sched.schedule_change");
    run(&[
        &format!(
            "UPDATE sched.schedule SET created_at = created_at - {by}, baseline_at = baseline_at - {by}, defined_at = defined_at - {by}"
        ),
        // Keys of time, too, by way of where no other row is.
        "UPDATE sched.schedule_definition SET valid_from = valid_from - interval '36525 days', valid_to = valid_to - interval '36525 days'",
        &format!(
            "UPDATE sched.schedule_definition SET valid_from = valid_from + interval '36525 days' - {by}, valid_to = valid_to + interval '36525 days' - {by},
                    starts_at = starts_at - {by}, ends_at = ends_at - {by}"
        ),
        "UPDATE sched.skip SET defined_at = defined_at - interval '36525 days', plan_from = plan_from - interval '36525 days'",
        &format!(
            "UPDATE sched.skip SET defined_at = defined_at + interval '36525 days' - {by}, plan_from = plan_from + interval '36525 days' - {by},
                    plan_to = plan_to - {by}"
        ),
        &format!("UPDATE sched.timer_state SET buffered_plan = buffered_plan - {by}, backlog_until = backlog_until - {by}, external_through = external_through - {by}"),
        &format!("DELETE FROM sched.schedule_change WHERE change_id > {last}"),
        &format!("UPDATE sched.schedule_change SET terminal_at = terminal_at - {by}"),
        // Plan times are unique at every moment: by way of where no other row is.
        "UPDATE sched.ledger SET plan_time = plan_time - interval '36525 days'",
        &format!(
            "UPDATE sched.ledger SET plan_time = plan_time + interval '36525 days' - {by}, created_at = created_at - {by}, started_at = started_at - {by},
                    heartbeat_at = heartbeat_at - {by}, finished_at = finished_at - {by}, next_retry_at = next_retry_at - {by}, run_at = run_at - {by}"
        ),
    ]);
    for statement in times_pass(&by, 1) {
        run(&[&statement]);
    }
    run(&[HEADS_ARE_NEW]);
}
