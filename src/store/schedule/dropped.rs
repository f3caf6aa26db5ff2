//! `sched.schedule_dropped`: schedules that were dropped with all that they had pending (`cancel_pending`) while somebody had something of it in
//! hand: a fire that was not committed yet, a claim, a run.
//!
//! Nobody waits for these. The drop leaves a row, claims refuse whatever comes of such a schedule as long as the row is there, and a dispatcher
//! cancels it. The row goes when all transactions that could have fired the schedule have ended. Which those are tells a transaction id that
//! had not been given when the drop was seen to be committed: who fires has an id (from the lock on the timer) before he looks whether the
//! schedule is there, so whoever still saw it has a lower one.

use std::time::Duration;

use pgrx::datum::Uuid;
use pgrx::pg_sys;
use scheduler_core::Instant;

use crate::pg::convert::timestamp;
use crate::pg::record::Record;
use crate::pg::session::List;
use crate::pg::Session;
use crate::store::counted;
use crate::store::low_water_marks;
use crate::{arguments, statement};

/// Whether runs that go on are told that they are the last ones. That takes locks for which their heartbeats wait: it is for short
/// transactions.
#[derive(Clone, Copy, PartialEq, Eq)]
pub enum Runs {
    /// They are.
    End,
    /// They stay as they are.
    Stay,
}

/// Cancels the executions of a schedule that nobody runs, by what the ledger has them by, and keeps dispatchers from firing more of them
/// while the transaction is open. What somebody has in hand is refused to everybody afterwards.
pub fn cancel_pending(session: &Session, schedule_id: i64, keys: Vec<Uuid>, now: Instant) {
    statement!(TIMER_HOLD = "timer/timer_hold"(INT8OID));
    statement!(SCHEDULE_DROPPED_ADD = "schedule/schedule_dropped_add"(INT8OID, UUIDARRAYOID));
    // Who has the lock is the only one who can be firing it. One without a timer may be getting it from a transaction that fires it, too.
    let is_held = TIMER_HOLD.run(session, arguments![schedule_id]).first().is_some();
    let cancelled = cancel(session, schedule_id, keys.clone(), Runs::Stay, now);
    if !is_held || cancelled.left > 0 {
        SCHEDULE_DROPPED_ADD.run(session, arguments![schedule_id, List(keys)]);
        low_water_marks::added_drop();
    }
}

/// What became of a schedule's open executions.
struct Cancelled {
    /// Others have these in hand, or run them and may be given them again.
    left: i64,
    /// Something was done.
    any: bool,
}

fn cancel(session: &Session, schedule_id: i64, keys: Vec<Uuid>, runs: Runs, now: Instant) -> Cancelled {
    statement!(
        SCHEDULE_CANCEL_PENDING = "schedule/schedule_cancel_pending"(INT8OID, UUIDARRAYOID, TIMESTAMPTZOID, BOOLOID)
    );
    let arguments = arguments![schedule_id, List(keys), timestamp(now), runs == Runs::End];
    let rows = SCHEDULE_CANCEL_PENDING.run(session, arguments);
    counted::of_rows(&rows);
    rows.first().map_or(Cancelled { left: 0, any: false }, |row| Cancelled {
        left: row.get_required("in_hand"),
        any: row.get_required::<i64>("cancelled") > 0,
    })
}

/// Up to `limit` dropped schedules that are to be looked at.
pub fn due(session: &Session, now: Instant, limit: i64) -> Vec<i64> {
    statement!(SCHEDULES_DROPPED_DUE = "schedule/schedules_dropped_due"(TIMESTAMPTZOID, INT8OID));
    SCHEDULES_DROPPED_DUE
        .run(session, arguments![timestamp(now), limit])
        .iter()
        .map(|row| row.get_required("schedule_id"))
        .collect()
}

/// A transaction id that was given to nobody yet.
pub fn next_transaction() -> i64 {
    // SAFETY: reads shared memory under its lock.
    unsafe { pg_sys::ReadNextFullTransactionId().value.cast_signed() }
}

/// For how long one short transaction goes on to look at one more.
const LONGEST: Duration = Duration::from_millis(20);

/// Cancels what came of these schedules, which were seen before `next` was read, and forgets those of which nothing can come any more; how
/// many it has looked at. In a short transaction it leaves the others for the next: each costs a look through the history of its scopes.
pub fn settle(session: &Session, schedule_ids: &[i64], next: i64, runs: Runs, now: Instant) -> usize {
    statement!(SCHEDULES_DROPPED_LOCK = "schedule/schedules_dropped_lock"(INT8ARRAYOID, INT8OID));
    statement!(SCHEDULES_DROPPED_FORGET = "schedule/schedules_dropped_forget"(INT8ARRAYOID));
    let began = std::time::Instant::now();
    let rows = SCHEDULES_DROPPED_LOCK.run(session, arguments![List(schedule_ids.to_vec()), next]);
    let (mut over, mut kept) = (Vec::new(), Vec::new());
    for row in rows.iter() {
        if runs == Runs::End && began.elapsed() > LONGEST {
            break;
        }
        let (schedule_id, keys, have_ended) =
            (row.get_required("schedule_id"), row.get_required("keys"), row.get_required("have_ended"));
        // Whoever else is still at work: what was given back would stand before all that others claim until he has ended.
        let cancelled = cancel(session, schedule_id, keys, runs, now);
        // Only once there is nothing to do: who has just looked into the ledger may have seen it as it was before.
        if have_ended && cancelled.left == 0 && !cancelled.any {
            over.push(schedule_id);
        } else {
            kept.push(schedule_id);
        }
    }
    let looked_at = over.len() + kept.len();
    if !over.is_empty() {
        SCHEDULES_DROPPED_FORGET.run(session, arguments![List(over)]);
    }
    keep(session, kept, next, now);
    looked_at
}

/// Has these looked at again a little later.
pub fn keep(session: &Session, schedule_ids: Vec<i64>, next: i64, now: Instant) {
    statement!(SCHEDULES_DROPPED_KEEP = "schedule/schedules_dropped_keep"(INT8ARRAYOID, INT8OID, TIMESTAMPTZOID));
    if !schedule_ids.is_empty() {
        SCHEDULES_DROPPED_KEEP.run(session, arguments![List(schedule_ids), next, timestamp(now)]);
    }
}
