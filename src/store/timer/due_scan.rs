//! Due timers and their schedules row by row: what timers_due.sql and schedules_read.sql say, done by `crate::heap`. Where a table is
//! not as expected the answer is `None`, and the statement runs (`sql`).

use std::collections::{BTreeMap, HashMap};
use std::rc::Rc;

use pgrx::pg_sys::{self, Oid};
use scheduler_core::Instant;

use crate::heap::layouts::{self, job, timer};
use crate::heap::{Condition, Index, LatestSnapshot, Table, Workspace};
use crate::pg::convert::timestamp;
use crate::pg::record::Record;
use crate::store::fast_path::{readable, writable};
use crate::store::schedule::state::{LockedTimer, ScheduleRow, ScheduleState, TimerRow};
use crate::store::timer::new_timer::{BatchWindow, EachOwner, MOST_SEEN};

/// Locks the timers that are due at `now` at the latest and within the window.
pub fn pick(schema: Oid, window: BatchWindow, now: Instant) -> Option<BTreeMap<i64, TimerRow>> {
    let timers = writable(schema, &layouts::TIMER, &Rc::<Workspace>::default(), pg_sys::ACL_UPDATE)?;
    let snapshot = LatestSnapshot::take();
    let mut order = Index::open(&timers, c"timer_fire_at", &snapshot);
    let bounds = (
        Condition::more_than(pg_sys::F_TIMESTAMPTZ_GT, timestamp(window.after)),
        Condition::at_most(pg_sys::F_TIMESTAMPTZ_LE, timestamp(now)),
    );
    let mut picked = BTreeMap::new();
    let mut take = |count: i64, latest: bool| {
        let most = picked.len().saturating_add(usize::try_from(count).unwrap_or(usize::MAX));
        order.seek_between(bounds.0, bounds.1);
        while picked.len() < most && if latest { order.previous() } else { order.next() } {
            pgrx::check_for_interrupts!();
            if !picked.contains_key(&timers.get_required(timer::SCHEDULE_ID)) && timers.lock(&snapshot) {
                picked.insert(timers.get_required(timer::SCHEDULE_ID), timer_of(&timers));
            }
        }
        picked.len() == most
    };
    if take(window.latest, true) {
        take(window.earliest, false);
    }
    drop(order);
    Some(picked)
}

/// Of each owner up to `most` of the timers that are due within the window, the latest or the earliest. What is more than that is passed over in
/// the index. `None` also where the index does not say whose a timer is.
pub fn each_owner(schema: Oid, window: BatchWindow, now: Instant, most: i64, latest: bool) -> Option<EachOwner> {
    let timers = readable(schema, &layouts::TIMER)?;
    let snapshot = LatestSnapshot::take();
    let mut order = Index::open(&timers, c"timer_fire_at", &snapshot);
    let bounds = (
        Condition::more_than(pg_sys::F_TIMESTAMPTZ_GT, timestamp(window.after)),
        Condition::at_most(pg_sys::F_TIMESTAMPTZ_LE, timestamp(now)),
    );
    let most = usize::try_from(most).unwrap_or(usize::MAX);
    let mut lists = EachOwner::new();
    order.keep_entries();
    order.seek_between(bounds.0, bounds.1);
    for _ in 0..MOST_SEEN {
        if !order.go_to_entry(latest) {
            break;
        }
        pgrx::check_for_interrupts!();
        let owner = order.entry_value(1)?.value() as u32;
        let list = lists.entry(owner).or_default();
        if list.len() < most && order.fetch() {
            list.push_back(timers.get_required(timer::SCHEDULE_ID));
        }
    }
    drop(order);
    Some(lists)
}

/// Locks these timers, where they are due at `now` at the latest.
pub fn lock_these(schema: Oid, schedule_ids: &[i64], now: Instant) -> Option<BTreeMap<i64, TimerRow>> {
    let timers = writable(schema, &layouts::TIMER, &Rc::<Workspace>::default(), pg_sys::ACL_UPDATE)?;
    let snapshot = LatestSnapshot::take();
    let mut by_id = Index::open(&timers, c"timer_pkey", &snapshot);
    let mut locked = BTreeMap::new();
    for schedule_id in schedule_ids {
        pgrx::check_for_interrupts!();
        let is_due = by_id.find(&[Condition::equal(pg_sys::F_INT8EQ, *schedule_id)])
            && timers.get_saturated(timer::FIRE_AT).is_some_and(|fire_at| fire_at <= now);
        if is_due && timers.lock(&snapshot) {
            locked.insert(*schedule_id, timer_of(&timers));
        }
    }
    drop(by_id);
    Some(locked)
}

fn timer_of(table: &Table) -> TimerRow {
    let timer = TimerRow::of(table);
    let held = LockedTimer {
        tid: table.tid(),
        last_plan_time: table.get(timer::LAST_PLAN_TIME),
        last_fired_at: table.get(timer::LAST_FIRED_AT),
        tracks_runs: timer.tracks_runs,
    };
    TimerRow { held: Some(held), ..timer }
}

/// The state of these schedules, after their timers were locked and read.
pub fn read(schema: Oid, schedule_ids: &[i64], timers: &mut BTreeMap<i64, TimerRow>) -> Option<Vec<ScheduleState>> {
    let (schedules, jobs) = (readable(schema, &layouts::SCHEDULE)?, readable(schema, &layouts::JOB)?);
    let awaited = readable(schema, &layouts::AWAITED)?;
    let latest = LatestSnapshot::take();
    let mut schedule_by_id = Index::open(&schedules, c"schedule_pkey", &latest);
    let mut job_by_name = Index::open(&jobs, c"job_pkey", &latest);
    let mut awaited_by_id = Index::open(&awaited, c"awaited_pkey", &latest);
    let mut known: HashMap<String, Option<Oid>> = HashMap::new();
    let mut snapshots = Vec::with_capacity(schedule_ids.len());
    for schedule_id in schedule_ids {
        pgrx::check_for_interrupts!();
        let id = Condition::equal(pg_sys::F_INT8EQ, *schedule_id);
        let schedule = schedule_by_id.find(&[id]).then(|| ScheduleRow::of(&schedules)).map(|mut row| {
            row.tid = Some(schedules.tid());
            row.job_owner = known.get(&row.job_name).copied().unwrap_or_else(|| {
                let found = job_by_name.find(&[Condition::equal(pg_sys::F_TEXTEQ, row.job_name.as_str())]);
                let owner = found.then(|| jobs.get_required(job::OWNER));
                known.insert(row.job_name.clone(), owner);
                owner
            });
            row
        });
        let tracks_runs = schedule.as_ref().is_some_and(ScheduleRow::waits_for_runs);
        snapshots.push(ScheduleState {
            schedule_id: *schedule_id,
            schedule,
            timer: timers.remove(schedule_id),
            busy: tracks_runs && awaited_by_id.find(&[id]),
        });
    }
    Some(snapshots)
}
