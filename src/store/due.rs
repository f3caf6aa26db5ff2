//! Due timers and their schedules row by row: what timers_due.sql and schedules_read.sql say, done by `store/table.rs`. Where a table is
//! not as expected the answer is `None`, and `timer.rs` runs the statement.

use std::collections::{BTreeMap, HashMap};
use std::rc::Rc;

use pgrx::datum::{TimestampWithTimeZone, Uuid};
use pgrx::pg_sys::{self, Oid};
use scheduler_core::Instant;

use crate::convert::{self, timestamp};
use crate::error::or_raise;
use crate::store::rows::column::{self, job, schedule, timer};
use crate::store::snapshot::{FormerKeys, Held, ScheduleRow, Snapshot, TimerRow};
use crate::store::table::{Condition, Index, Layout, Present, Table, Workspace};
use crate::store::timer::{must, Reach};

/// A table to be read, where a statement of the current role would be allowed to.
pub fn readable(schema: Oid, layout: &Layout) -> Option<Table> {
    Table::open(schema, layout).filter(|table| table.permits(pg_sys::ACL_SELECT))
}

/// A table to be read and written, where a statement of the current role that needs these rights would be allowed to.
pub fn writable(schema: Oid, layout: &Layout, workspace: &Rc<Workspace>, rights: u32) -> Option<Table> {
    Table::open_to_write(schema, layout, workspace).filter(|table| table.permits(pg_sys::ACL_SELECT | rights))
}

/// Locks the timers that are due at `now` at the latest and within reach.
pub fn pick(schema: Oid, reach: Reach, now: Instant) -> Option<BTreeMap<i64, TimerRow>> {
    let timers = writable(schema, &column::TIMER, &Rc::<Workspace>::default(), pg_sys::ACL_UPDATE)?;
    let present = Present::look();
    let mut order = Index::open(&timers, c"timer_fire_at", &present);
    let bounds = (
        Condition::more_than(pg_sys::F_TIMESTAMPTZ_GT, timestamp(reach.after)),
        Condition::at_most(pg_sys::F_TIMESTAMPTZ_LE, timestamp(now)),
    );
    let mut picked = BTreeMap::new();
    let mut take = |count: i64, latest: bool| {
        let most = picked.len().saturating_add(usize::try_from(count).unwrap_or(usize::MAX));
        order.seek_between(bounds.0, bounds.1);
        while picked.len() < most && if latest { order.previous() } else { order.next() } {
            pgrx::check_for_interrupts!();
            if !picked.contains_key(&timers.must(timer::SCHEDULE_ID)) && timers.lock(&present) {
                picked.insert(timers.must(timer::SCHEDULE_ID), timer_of(&timers));
            }
        }
        picked.len() == most
    };
    if take(reach.latest, true) {
        take(reach.earliest, false);
    }
    drop(order);
    Some(picked)
}

fn instant_of(table: &Table, column: usize) -> Option<Instant> {
    table.get::<TimestampWithTimeZone>(column).map(|value| or_raise(convert::instant("a stored time", value)))
}

fn timer_of(table: &Table) -> TimerRow {
    let remembered = [timer::CURSOR_AT, timer::BUFFERED_PLAN, timer::BACKLOG_UNTIL].map(|column| table.get(column));
    let (next_plan, progress) = TimerRow::times(table.get(timer::NEXT_PLAN_TIME), remembered);
    TimerRow {
        version: table.must(timer::VERSION),
        next_plan,
        progress,
        error_count: table.must(timer::ERROR_COUNT),
        parked: None,
        waiting: false,
        awaits: table.must(timer::AWAITS),
        held: Some(Held {
            place: table.place(),
            last_plan_time: table.get(timer::LAST_PLAN_TIME),
            last_fired_at: table.get(timer::LAST_FIRED_AT),
            awaits: table.must(timer::AWAITS),
        }),
    }
}

/// The state of these schedules, after their timers were locked and read.
pub fn read(schema: Oid, schedule_ids: &[i64], timers: &mut BTreeMap<i64, TimerRow>) -> Option<Vec<Snapshot>> {
    let (schedules, jobs) = (readable(schema, &column::SCHEDULE)?, readable(schema, &column::JOB)?);
    let awaited = readable(schema, &column::AWAITED)?;
    let present = Present::look();
    let mut schedule_by_id = Index::open(&schedules, c"schedule_pkey", &present);
    let mut job_by_name = Index::open(&jobs, c"job_pkey", &present);
    let mut awaited_by_id = Index::open(&awaited, c"awaited_pkey", &present);
    let mut known: HashMap<String, Option<Oid>> = HashMap::new();
    let mut snapshots = Vec::with_capacity(schedule_ids.len());
    for schedule_id in schedule_ids {
        pgrx::check_for_interrupts!();
        let id = Condition::equal(pg_sys::F_INT8EQ, *schedule_id);
        let schedule = schedule_by_id.find(&[id]).then(|| schedule_of(&schedules)).map(|mut row| {
            row.job_owner = known.get(&row.job_name).copied().unwrap_or_else(|| {
                let found = job_by_name.find(&[Condition::equal(pg_sys::F_TEXTEQ, row.job_name.as_str())]);
                let owner = found.then(|| jobs.must(job::OWNER));
                known.insert(row.job_name.clone(), owner);
                owner
            });
            row
        });
        let awaits = schedule.as_ref().is_some_and(ScheduleRow::waits_for_runs);
        snapshots.push(Snapshot {
            schedule_id: *schedule_id,
            schedule,
            timer: timers.remove(schedule_id),
            busy: awaits && awaited_by_id.find(&[id]),
        });
    }
    Some(snapshots)
}

/// The current row; its job is not known yet.
fn schedule_of(table: &Table) -> ScheduleRow {
    let former_keys: Vec<Option<Uuid>> = table.must(schedule::FORMER_KEYS);
    ScheduleRow {
        version: table.must(schedule::VERSION),
        clock: table.must(schedule::CLOCK),
        time_zone: table.must(schedule::TIME_ZONE),
        catch_up: table.must(schedule::CATCH_UP),
        catch_up_window: table.get(schedule::CATCH_UP_WINDOW),
        max_plans_per_tick: table.must(schedule::MAX_PLANS_PER_TICK),
        rearm: table.must(schedule::REARM),
        overlap: table.must(schedule::OVERLAP),
        delay: table.must(schedule::DELAY),
        jitter: table.must(schedule::JITTER),
        starts_at: table.get(schedule::STARTS_AT),
        ends_at: table.get(schedule::ENDS_AT),
        owned: table.must::<String>(schedule::OWNERSHIP) == "owned",
        enabled: table.must(schedule::ENABLED),
        created_at: must(instant_of(table, schedule::CREATED_AT)),
        baseline_at: must(instant_of(table, schedule::BASELINE_AT)),
        since_at: must(instant_of(table, schedule::SINCE_AT)),
        job_name: table.must(schedule::JOB_NAME),
        job_owner: None,
        key: table.must(schedule::KEY),
        former_keys: FormerKeys::of(!former_keys.is_empty(), former_keys.contains(&None)),
        place: Some(table.place()),
    }
}
