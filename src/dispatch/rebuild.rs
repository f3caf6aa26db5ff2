//! Timers are derived state: this makes all of them anew from the schedules, the ledger, the skips and what waits for a run.

use std::collections::{BTreeMap, HashMap, HashSet};

use pgrx::PgSqlErrorCode;
use scheduler_core::schedule::Next;
use scheduler_core::Instant;

use crate::dispatch::ahead;
use crate::dispatch::apply_changes::{armed, ended_definitions, record};
use crate::dispatch::compile::waits_for_runs;
use crate::pg::error::{raise, Failure};
use crate::pg::{session, Session};
use crate::store::alert;
use crate::store::low_water_marks;
use crate::store::timer::rebuild::{self, DerivedTimer};
use crate::store::timer::{self, NewTimer, ScheduleState};

/// How many schedules are looked at in one go.
const CHUNK: i64 = 1000;

/// Makes every timer anew; how many are armed. Dispatchers wait until the transaction ends, edits do not.
pub fn rebuild(now: Instant) -> i64 {
    session(|session| {
        rebuild::lock_timers(session);
        rebuild::drop_orphans(session);
        alert::look_at_gone(session);
        // Somebody may have written rows.
        low_water_marks::forget_all();
    });
    let (mut last, mut count) = (0, 0);
    loop {
        // A session for each chunk: what it read goes with it, so that memory does not grow with the number of schedules.
        let done = session(|session| {
            let ids = rebuild::next_schedules(session, last, CHUNK);
            let greatest = ids.last().copied()?;
            Some((greatest, chunk(session, ids, now)))
        });
        let Some((greatest, armed)) = done else { break };
        last = greatest;
        count += armed;
        pgrx::check_for_interrupts!();
    }
    session(|session| ahead::report(session, "", "", now));
    count
}

fn chunk(session: &Session, ids: Vec<i64>, now: Instant) -> i64 {
    let read = |ids: Vec<i64>| timer::read(session, ids, BTreeMap::new());
    // Also an edit that nobody has applied yet may have made a schedule care about its runs, or one that is committed between two looks:
    // what is armed is what the last look saw, and all of that which waits has its runs remembered before.
    let mut awaited: HashSet<i64> = HashSet::new();
    let mut snapshots = loop {
        // Whether a run has ended before what is known of the ends: one that ends between the two queues a change.
        let snapshots = read(ids.clone());
        let waits = |snapshot: &&ScheduleState| snapshot.schedule.as_ref().is_some_and(waits_for_runs);
        let waiting = snapshots.iter().filter(waits).map(|snapshot| snapshot.schedule_id);
        let anew: Vec<i64> = waiting.filter(|schedule_id| !awaited.contains(schedule_id)).collect();
        if anew.is_empty() {
            break snapshots;
        }
        if let Some(busy) = timer::await_unfinished(session, anew.clone()).first() {
            raise(Failure::new(
                PgSqlErrorCode::ERRCODE_LOCK_NOT_AVAILABLE,
                format!("a run of schedule {busy} is just being ended in a transaction that is still open"),
                "Call sched.rebuild() again when that has ended.",
            ));
        }
        awaited.extend(anew);
    };
    let found: HashMap<i64, DerivedTimer> =
        rebuild::find(session, ids).into_iter().map(|found| (found.schedule_id, found)).collect();
    for snapshot in &mut snapshots {
        snapshot.timer = found.get(&snapshot.schedule_id).map(DerivedTimer::timer);
    }
    let past = ended_definitions(session, &snapshots, now);
    let made = snapshots.iter().filter_map(|snapshot| {
        let (row, found) = (snapshot.schedule.as_ref()?, found.get(&snapshot.schedule_id)?);
        Some(armed(snapshot, row, past.get(&snapshot.schedule_id), found.terminal_at, now))
    });
    let timers: Vec<NewTimer> = made.collect();
    let count = timers.iter().filter(|timer| matches!(timer.next, Some(Next::Armed { .. }))).count();
    let written: Vec<&NewTimer> = timers.iter().collect();
    alert::look_at_watched(session, &timers.iter().map(|timer| timer.schedule_id).collect::<Vec<i64>>());
    timer::arm(session, &written, Vec::new(), Vec::new());
    record(session, &written);
    rebuild::remember_fires(session, found.into_values().collect());
    i64::try_from(count).unwrap_or(i64::MAX)
}
