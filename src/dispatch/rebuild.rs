//! Timers are derived state: this makes all of them anew from the schedules, the ledger, the skips and what waits for a run.

use std::collections::HashMap;

use scheduler_core::plan::Next;
use scheduler_core::Instant;

use crate::dispatch::arm::{armed, parked};
use crate::dispatch::policy::waits_for_runs;
use crate::store::rebuild::{self, Found};
use crate::store::skip::{self, Past};
use crate::store::timer::{self, NewTimer, Snapshot, TimerRow};
use crate::store::Session;

/// How many schedules are looked at in one go.
const CHUNK: i64 = 1000;

/// Makes every timer anew; how many are armed. Dispatchers wait until the transaction ends, edits do not.
pub fn rebuild(session: &Session, now: Instant) -> i64 {
    rebuild::lock_timers(session);
    rebuild::drop_orphans(session);
    let (mut last, mut count) = (0, 0);
    loop {
        let ids = rebuild::next_schedules(session, last, CHUNK);
        let Some(greatest) = ids.last().copied() else { return count };
        last = greatest;
        count += chunk(session, ids, now);
        pgrx::check_for_interrupts!();
    }
}

fn chunk(session: &Session, ids: Vec<i64>, now: Instant) -> i64 {
    // Also an edit that nobody has applied yet may have made a schedule care about its runs.
    let waits = |snapshot: &&Snapshot| snapshot.schedule.as_ref().is_some_and(waits_for_runs);
    let waiting = timer::read(session, ids.clone()).iter().filter(waits).map(|s| s.schedule_id).collect();
    timer::await_unfinished(session, waiting);
    // Whether a run has ended before what is known of the ends: one that ends between the two queues a change.
    let snapshots = timer::read(session, ids.clone());
    let found: HashMap<i64, Found> =
        rebuild::find(session, ids.clone()).into_iter().map(|found| (found.schedule_id, found)).collect();
    let mut past: HashMap<i64, Vec<Past>> = HashMap::new();
    for ended in skip::unsettled(session, ids) {
        past.entry(ended.schedule_id).or_default().push(ended);
    }
    let mut timers: Vec<NewTimer> = Vec::new();
    for mut snapshot in snapshots {
        let (Some(row), Some(found)) = (snapshot.schedule.take(), found.get(&snapshot.schedule_id)) else { continue };
        snapshot.timer = Some(TimerRow {
            version: row.version,
            next_plan: None,
            progress: found.progress,
            error_count: 0,
            waiting: false,
            parked: found.parked,
        });
        let ended = past.get(&snapshot.schedule_id).map_or(&[][..], Vec::as_slice);
        let mut armed = armed(&snapshot, &row, ended, found.terminal_at, now);
        armed.timer.parked = armed.reason.map(|reason| parked(snapshot.schedule_id, reason));
        timers.push(armed.timer);
    }
    let count = timers.iter().filter(|timer| matches!(timer.next, Some(Next::Armed { .. }))).count();
    timer::arm(session, timers.clone(), Vec::new(), Vec::new());
    skip::record(session, &timers, false);
    rebuild::remember_fires(session, found.into_values().collect());
    i64::try_from(count).unwrap_or(i64::MAX)
}
