//! What LISTEN hears, and whether there is room for it.

use std::cell::Cell;
use std::ffi::CStr;
use std::time::{Duration, Instant};

use pgrx::datum::Uuid;
use pgrx::{pg_sys, IntoDatum, PgSqlErrorCode};

use crate::pg::convert::MAX_QUEUE_BYTES;
use crate::pg::error::{raise, Failure};
use crate::pg::record::Record;
use crate::pg::{Owner, Session};
use crate::{arguments, statement};

/// Has `LISTEN "sched:<queue>"` hear, once for the transaction, that something became claimable.
pub fn queue(_owner: &Owner, queue: &str) {
    of(queue);
}

/// The same for a queue of anybody.
pub fn of(queue: &str) {
    send(&format!("sched:{queue}"), "");
}

/// Has `LISTEN "sched:cancel"` hear that a run is asked to stop.
pub fn cancelled(execution_id: Uuid) {
    send("sched:cancel", &execution_id.to_string());
}

/// The queues of users in which something waits.
pub fn waiting(session: &Session) -> Vec<String> {
    statement!(QUEUES_WAITING = "queue/queues_waiting"(INT4OID));
    let longest = i32::try_from(MAX_QUEUE_BYTES).unwrap_or(i32::MAX);
    QUEUES_WAITING.run(session, arguments![longest]).iter().map(|row| row.get_required("queue")).collect()
}

fn send(channel: &str, payload: &str) {
    let arguments = [channel.into_datum(), payload.into_datum()];
    // SAFETY: the types that this function of Postgres takes, and none is NULL.
    unsafe { pgrx::direct_function_call_as_datum(pg_sys::pg_notify, &arguments) };
}

/// The share of the server's queue of notifications that may be filled. What is left is for others, and for what came up since we looked.
const FULL: f64 = 0.9;
/// How often to look for a hint: the look takes a lock that every notification needs.
const LOOK_EVERY: Duration = Duration::from_secs(1);
/// The length of the queue before version 17 made it a setting, in pages.
const PAGES: f64 = 1_048_576.0;

thread_local! {
    static FOUND: Cell<Option<(Instant, f64)>> = const { Cell::new(None) };
}

/// Whether a notification will fit. A session that listens and stays in a transaction lets the queue fill up, of the whole server; a
/// transaction whose notification does not fit fails at its commit, and a hint must not cost the work.
pub fn has_room() -> bool {
    let recent = FOUND.get().filter(|(at, _)| at.elapsed() < LOOK_EVERY);
    recent.map_or_else(usage, |(_, usage)| usage) < FULL
}

/// Raises where notifications of so many bytes might not fit. Here they fail alone, at the commit they would take everything along that
/// the transaction has done.
pub fn must_fit(bytes: i64) {
    let usage = usage();
    // No notification goes over the end of a page, so that a page may be half empty.
    let share = bytes as f64 * 2.0 / queue_bytes();
    if usage + share < FULL {
        return;
    }
    let (found, more) = (percent(usage), percent(share));
    let message = if usage < FULL {
        format!("the server's queue of notifications is {found} % full and has no room for {more} % more")
    } else {
        format!("the server's queue of notifications is {found} % full")
    };
    raise(Failure::new(
        PgSqlErrorCode::ERRCODE_CONFIGURATION_LIMIT_EXCEEDED,
        message,
        "It is emptied when the oldest transaction of a session that listens has ended: look for it in pg_stat_activity.",
    ));
}

fn percent(share: f64) -> i64 {
    (share * 100.0).ceil() as i64
}

/// How full the queue is, of 1.
pub fn usage() -> f64 {
    #[cfg(any(test, feature = "pg_test"))]
    if let Some(usage) = PRETENDED.get() {
        return usage;
    }
    // SAFETY: a function without arguments.
    let usage: Option<f64> = unsafe { pgrx::direct_function_call(pg_sys::pg_notification_queue_usage, &[]) };
    let usage = usage.unwrap_or(0.0);
    FOUND.set(Some((Instant::now(), usage)));
    usage
}

fn queue_bytes() -> f64 {
    // SAFETY: returns NULL where there is no such setting, or a C string that lives until the next such call.
    let pages = unsafe {
        let text = pg_sys::GetConfigOption(c"max_notify_queue_pages".as_ptr(), true, false);
        (!text.is_null()).then(|| CStr::from_ptr(text)).and_then(|text| text.to_str().ok()?.parse().ok())
    };
    pages.unwrap_or(PAGES) * f64::from(pg_sys::BLCKSZ)
}

/// How full the queue is found to be by tests, which would have to write gigabytes.
#[cfg(any(test, feature = "pg_test"))]
pub fn pretend(usage: Option<f64>) {
    PRETENDED.set(usage);
}

#[cfg(any(test, feature = "pg_test"))]
thread_local! {
    static PRETENDED: Cell<Option<f64>> = const { Cell::new(None) };
}
