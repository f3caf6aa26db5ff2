//! Runs that are done when they are dispatched, once the statement that inserts them has run: what jobs of kind notify say has to fit into
//! the server's queue, and what jobs of kind log say is written when the transaction is committed. A rolled back (sub)transaction
//! takes its lines along. PREPARE TRANSACTION writes them: who commits it is another session, which knows nothing of them.

use std::cell::{Cell, RefCell};
use std::collections::VecDeque;
use std::ffi::c_void;
use std::panic::AssertUnwindSafe;
use std::ptr::{null, null_mut};

use pgrx::datum::TimestampWithTimeZone;
use pgrx::prelude::*;
use pgrx::{pg_sys, PgLogLevel, PgTryBuilder};
use scheduler_core::clock::DateTime;
use scheduler_core::Instant;

use crate::pg::error::{self, Failure};
use crate::pg::record::Record;
use crate::pg::session::{Row, Rows};
use crate::pg::{convert, utf8_text};
use crate::shmem::log_limit;
use crate::store::database_clock;
use crate::store::queue::notify;

/// How many lines a transaction writes, beside one that says how many there would have been.
const MOST_LINES: usize = 1000;
/// How many characters of a payload a line has.
const MOST_CHARACTERS: usize = 1000;
/// How much of a payload's text the statements are to hand over, as SQL's `left` counts it: one character more, which tells that it was
/// cut. In SQL_ASCII that counts bytes, of which a character has four at most.
pub fn payload_limit() -> i32 {
    let longest = if utf8_text::counts_bytes() { 4 } else { 1 };
    (MOST_CHARACTERS * longest) as i32 + 1
}

/// What the runs of one payload say.
struct LoggedPayload {
    name: String,
    payload: String,
    plan_times: Vec<Instant>,
    owner: u32,
}

impl LoggedPayload {
    /// What a row of a statement has to be logged: the name, the beginning of the payload's text, plan times; `None` where the name is NULL.
    fn of(row: &Row) -> Option<LoggedPayload> {
        let name = row.get("log_name")?;
        let mut payload = row.lossy("log_payload").unwrap_or_default();
        if let Some((end, _)) = payload.char_indices().nth(MOST_CHARACTERS) {
            payload.truncate(end);
            payload.push_str("... (cut)");
        }
        let plan_times: Vec<TimestampWithTimeZone> = row.get("log_plan_times").unwrap_or_default();
        let plan_times = plan_times.into_iter().filter_map(|time| convert::instant("plan_time", time).ok()).collect();
        let owner = row.get::<i64>("log_owner").and_then(|owner| u32::try_from(owner).ok()).unwrap_or_default();
        Some(LoggedPayload { name, payload, plan_times, owner })
    }
}

/// Does what is left to do after a statement: its first row says how many bytes it has notified (`notified`), and all of its rows what is to be
/// logged (`log_name`, `log_payload`, `log_plan_times`, `log_owner`).
pub fn deliver(rows: &Rows) {
    let said: Vec<LoggedPayload> = rows.iter().filter_map(|row| LoggedPayload::of(&row)).collect();
    if let Some(bytes) = rows.first().and_then(|row| row.get::<i64>("notified")) {
        let before: i64 = PENDING.with_borrow(|all| all.iter().map(|pending| pending.notified).sum());
        notify::must_fit(before.saturating_add(bytes));
        add_pending(|pending, _| pending.notified += bytes);
    }
    if !said.is_empty() {
        add_pending(|pending, room| pending.take(&said, room));
    }
}

/// What a (sub)transaction leaves to the end.
#[derive(Default)]
struct PendingDelivery {
    made_in: pg_sys::SubTransactionId,
    /// To be written, each with whose run it is.
    lines: Vec<(u32, String)>,
    /// How many are not.
    more: usize,
    /// How many bytes are notified.
    notified: i64,
}

impl PendingDelivery {
    /// Makes lines of these runs, as many as there is room for, in the order of their plan times.
    fn take(&mut self, said: &[LoggedPayload], room: usize) {
        let mut runs: Vec<(Instant, &LoggedPayload)> =
            said.iter().flat_map(|said| said.plan_times.iter().map(move |time| (*time, said))).collect();
        runs.sort_by_key(|(time, _)| *time);
        let line = |(time, said): &(Instant, &LoggedPayload)| {
            (said.owner, format!("scheduler: {} at {}: {}", said.name, DateTime::Fixed(*time), said.payload))
        };
        self.lines.extend(runs.iter().take(room).map(line));
        self.more += runs.len().saturating_sub(room);
    }

    fn absorb(&mut self, other: PendingDelivery) {
        self.lines.extend(other.lines);
        self.more += other.more;
        self.notified += other.notified;
    }
}

thread_local! {
    /// Of the open (sub)transactions, the innermost last.
    static PENDING: RefCell<Vec<PendingDelivery>> = const { RefCell::new(Vec::new()) };
    static REGISTERED: Cell<bool> = const { Cell::new(false) };
}

/// Adds to what this subtransaction leaves to the end; `add` is told how many lines there is room for.
fn add_pending(add: impl FnOnce(&mut PendingDelivery, usize)) {
    if !REGISTERED.replace(true) {
        // SAFETY: the callbacks live as long as the library, which is never unloaded.
        unsafe {
            pg_sys::RegisterXactCallback(Some(transaction_ended), null_mut());
            pg_sys::RegisterSubXactCallback(Some(subtransaction_ended), null_mut());
        }
    }
    // SAFETY: in a transaction.
    let made_in = unsafe { pg_sys::GetCurrentSubTransactionId() };
    PENDING.with_borrow_mut(|all| {
        let room = MOST_LINES.saturating_sub(all.iter().map(|pending| pending.lines.len()).sum());
        add(of(all, made_in), room);
    });
}

/// What this subtransaction, which is the innermost, has left to the end.
fn of(all: &mut Vec<PendingDelivery>, made_in: pg_sys::SubTransactionId) -> &mut PendingDelivery {
    if all.last().is_none_or(|last| last.made_in != made_in) {
        all.push(PendingDelivery { made_in, ..PendingDelivery::default() });
    }
    let last = all.len() - 1;
    &mut all[last]
}

#[pg_guard]
unsafe extern "C-unwind" fn transaction_ended(event: pg_sys::XactEvent::Type, _argument: *mut c_void) {
    use pg_sys::XactEvent::{XACT_EVENT_ABORT, XACT_EVENT_COMMIT, XACT_EVENT_PREPARE};
    if event == XACT_EVENT_COMMIT || event == XACT_EVENT_PREPARE {
        write(PENDING.take());
    } else if event == XACT_EVENT_ABORT {
        PENDING.take();
    }
}

#[pg_guard]
unsafe extern "C-unwind" fn subtransaction_ended(
    event: pg_sys::SubXactEvent::Type,
    mine: pg_sys::SubTransactionId,
    parent: pg_sys::SubTransactionId,
    _argument: *mut c_void,
) {
    use pg_sys::SubXactEvent::{SUBXACT_EVENT_ABORT_SUB, SUBXACT_EVENT_COMMIT_SUB};
    if event != SUBXACT_EVENT_ABORT_SUB && event != SUBXACT_EVENT_COMMIT_SUB {
        return;
    }
    PENDING.with_borrow_mut(|all| {
        // Ids rise: those from `mine` on began in it.
        let ended = all.split_off(all.partition_point(|pending| pending.made_in < mine));
        if event == SUBXACT_EVENT_COMMIT_SUB {
            ended.into_iter().for_each(|pending| of(all, parent).absorb(pending));
        }
    });
}

/// Writes the lines: to the server's log only, because whoever dispatches runs the jobs of all owners.
fn write(all: Vec<PendingDelivery>) {
    let more: usize = all.iter().map(|pending| pending.more).sum();
    let now = database_clock::now().as_micros();
    let mut lines: VecDeque<String> = all
        .into_iter()
        .flat_map(|pending| pending.lines)
        .filter_map(|(owner, line)| log_limit::of_role(owner, line, now))
        .collect();
    if more > 0 {
        lines.push_back(format!("scheduler: {more} more runs of jobs of kind log in the same transaction"));
    }
    if lines.is_empty() {
        return;
    }
    // SAFETY: the backend's only thread. The transaction is committed: an error of the log's own must not get any further, and whoever
    // raises one forgets that interrupts wait. The client's statement, which may be long, does not belong to each line.
    unsafe {
        let (held, statement) = (pg_sys::InterruptHoldoffCount, pg_sys::debug_query_string);
        pg_sys::debug_query_string = null();
        let report = AssertUnwindSafe(|| {
            while let Some(line) = lines.pop_front() {
                error::report(PgLogLevel::LOG_SERVER_ONLY, Failure::note(line));
            }
        });
        PgTryBuilder::new(report).catch_others(|_| pg_sys::InterruptHoldoffCount = held).execute();
        pg_sys::debug_query_string = statement;
    }
}
