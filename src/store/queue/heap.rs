//! Queues row by row: what claim.sql says where no stale run is to be had, and executions_enqueue.sql where no key can be taken, or the plan
//! times are drawn.

use std::cmp::Reverse;
use std::rc::Rc;

use pgrx::datum::{Interval, TimestampWithTimeZone, Uuid};
use pgrx::pg_sys::{self, Datum, Oid};
use pgrx::IntoDatum;
use scheduler_core::Instant;

use crate::heap::layouts::{self, lease, ledger, ready, retry};
use crate::heap::{Condition, Index, Sequence, Table, Workspace};
use crate::pg::convert::{is_due, later, timestamp};
use crate::pg::jsonb::Jsonb;
use crate::pg::record::Record;
use crate::pg::{oid_cache, role};
use crate::shmem::low_water_mark::{Order, Position};
use crate::store::counted;
use crate::store::execution::{ids, Claimed, NewExecution, QueueClaim};
use crate::store::job::{job_cache, Job};
use crate::store::lease::cancel_request;
use crate::store::lease::heap::{new_row, LedgerRow, LedgerTables};
use crate::store::lease::new_lease::NewLease;
use crate::store::queue::draw::PlanTimeDraw;
use crate::store::queue::scan_start::{self, Waiting};
use crate::store::queue::{pause, QueueClaimed};
use crate::store::schedule::dropped_heap;
use crate::store::timer::first_times;

/// How many retries that are due a claim goes through at most: a dispatcher makes them claimable, some hundred a turn.
const MOST_DUE_RETRIES: usize = 500;

/// Something of the queue that waited for a time that has come.
struct DueRetry {
    at: Position,
    id: Uuid,
    since: TimestampWithTimeZone,
}

impl DueRetry {
    /// Where it stands in `retry_pkey`.
    fn place(&self) -> [Condition; 2] {
        [Condition::equal(pg_sys::F_TIMESTAMPTZ_EQ, self.since), Condition::equal(pg_sys::F_UUID_EQ, self.id)]
    }
}

type RetryRow = [Option<Datum>; layouts::RETRY.columns.len()];
type ReadyRow = [Option<Datum>; layouts::READY.columns.len()];

/// How long leases of a job last in one claim.
struct LeaseLength {
    job_name: String,
    timeout: Interval,
    stale_after: TimestampWithTimeZone,
    run_timeout: Option<Interval>,
    run_until: Option<TimestampWithTimeZone>,
}

/// Whether it is known, without opening their table, that no retry is due.
fn is_no_retry_due(schema: Oid, now: Instant) -> bool {
    oid_cache::relation(schema, layouts::RETRY.name).is_some_and(|table| scan_start::is_nothing_due(table, now))
}

/// A queue, opened to claim from it.
pub struct QueueTables {
    tables: LedgerTables,
    /// What can be claimed.
    waiting: Table,
    /// What is to be tried again, unless it is known that none of it is due.
    retries: Option<Table>,
}

impl QueueTables {
    /// `None` where a table is not as this file expects it.
    pub fn open(schema: Oid, now: Instant) -> Option<QueueTables> {
        let others = |workspace: &Rc<Workspace>| {
            let retries = if is_no_retry_due(schema, now) {
                None
            } else {
                Some(Table::open_to_write(schema, &layouts::RETRY, workspace)?)
            };
            Some((retries, Table::open_to_write(schema, &layouts::READY, workspace)?))
        };
        let (tables, (retries, waiting)) = LedgerTables::open_with(schema, others)?;
        Some(QueueTables { tables, waiting, retries })
    }

    /// Leases what is claimable; `None` where there is more to a claim than to take what waits: a stale run, or very many retries that are due.
    /// `find_job` says how long leases and runs of a job last.
    pub fn claim(
        &self,
        wanted: &QueueClaim,
        now: Instant,
        find_job: impl Fn(&str) -> Option<Job>,
    ) -> Option<QueueClaimed> {
        if pause::is_any_paused_now(self.tables.leases.schema, &wanted.queue, now) || self.has_stale_run(now) {
            return None;
        }
        let due = self.due_retries(wanted, now)?;
        let leases = &self.tables.leases;
        let (entry, mut entries) = (&self.tables.ledger, self.tables.lookup_ledger());
        let runner_id = wanted.runner_id.as_str().into_datum();
        let mut fences = Sequence::open(leases.schema, c"fence");
        let mut lengths: Vec<LeaseLength> = Vec::new();
        let (mut rows, mut claimed, mut others_only) = (Vec::new(), Vec::new(), false);
        let mut grant = |id| {
            if !entries.find(id) {
                return false;
            }
            claimed.push(Claimed::of(entry, wanted, now, |job_name| {
                let known = lengths.iter().position(|length| length.job_name == job_name);
                let length = known.unwrap_or_else(|| {
                    let job = find_job(job_name);
                    let timeout = wanted.stale_timeout.or_else(|| job.as_ref()?.stale_timeout);
                    let timeout = timeout.unwrap_or(wanted.default_stale_timeout);
                    let run_timeout = job.and_then(|job| job.run_timeout);
                    let stale_after = if wanted.lasts_as_process {
                        TimestampWithTimeZone::positive_infinity()
                    } else {
                        later(now, timeout)
                    };
                    let run_until = run_timeout.map(|length| later(now, length));
                    let job_name = job_name.to_owned();
                    lengths.push(LeaseLength { job_name, timeout, stale_after, run_timeout, run_until });
                    lengths.len() - 1
                });
                let grant = NewLease {
                    execution_id: id,
                    lease_token: ids::lease_token(),
                    fence: fences.next(),
                    attempt: entry.get_required::<i32>(ledger::ATTEMPT).saturating_add(1),
                    owner: entry.get_required(ledger::OWNER),
                    stale_timeout: lengths[length].timeout,
                    stale_after: lengths[length].stale_after,
                    run_timeout: lengths[length].run_timeout,
                    run_until: lengths[length].run_until,
                };
                rows.push(grant.row(runner_id, now));
                grant.granted()
            }));
            true
        };
        dropped_heap::with(leases.schema, now, |mut dropped| {
            let mut by_id = dropped.is_some().then(|| self.tables.lookup_ledger());
            let mut is_of_dropped = |id| {
                let (Some(dropped), Some(by_id)) = (&mut dropped, &mut by_id) else { return false };
                by_id.find(id) && entry.get(ledger::SCHEDULE_ID).is_some_and(|schedule_id| dropped.has(schedule_id))
            };
            cancel_request::with(leases.schema, now, |mut requested| {
                let mut is_refused =
                    |id| requested.as_mut().is_some_and(|requested| requested.has(id)) || is_of_dropped(id);
                others_only = self.take(wanted, due, now, &mut is_refused, &mut grant);
            });
        });
        leases.lease.insert_all(&rows);
        let first = lengths.into_iter().map(|length| length.stale_after).min_by_key(|time| i64::from(*time));
        first.into_iter().for_each(|stale_after| leases.mark_added(stale_after));
        Some(QueueClaimed { claimed, others_only: Some(others_only) })
    }

    /// Whether there is a lease that ran out. (`sweep_at` is a lower bound of `stale_after`.)
    fn has_stale_run(&self, now: Instant) -> bool {
        let lease = &self.tables.leases.lease;
        if scan_start::is_nothing_due(lease.oid(), now) {
            return false;
        }
        let Some(first) = scan_start::first_due(lease, first_times::LEASES, now) else { return false };
        let mut leases = first_times::LEASES.from(first, now, |index| self.tables.scan(lease, index));
        while leases.next(Index::next) {
            if is_due(lease.get_required(lease::STALE_AFTER), now) {
                return true;
            }
        }
        false
    }

    /// What of the queue waited for a time that has come, in the order of claiming, behind which all else of the queue may come; `None` where
    /// so much is due that only a dispatcher's way, or a statement's, through all of it is short.
    fn due_retries(&self, wanted: &QueueClaim, now: Instant) -> Option<Vec<DueRetry>> {
        let Some(retries) = &self.retries else {
            // What was known before the tables were locked, which may have taken long.
            return is_no_retry_due(self.tables.leases.schema, now).then(Vec::new);
        };
        let Some(first) = scan_start::first_due(retries, first_times::RETRIES, now) else {
            return Some(Vec::new());
        };
        let mut order = first_times::RETRIES.from(first, now, |index| self.tables.scan(retries, index));
        let (mut due, mut seen) = (Vec::new(), 0);
        while order.next(Index::next) {
            seen += 1;
            if seen > MOST_DUE_RETRIES {
                return None;
            }
            if retries.get_required::<&str>(retry::QUEUE) == wanted.queue {
                let id = retries.get_required(retry::EXECUTION_ID);
                let at = Position::new(
                    retries.get_required(retry::PRIORITY),
                    retries.get_required::<TimestampWithTimeZone>(retry::PLAN_TIME),
                    id,
                );
                due.push(DueRetry { at, id, since: retries.get_required(retry::RETRY_AT) });
            }
        }
        // The last is taken first.
        due.sort_by_key(|retry| Reverse(retry.at));
        Some(due)
    }

    /// Takes executions out of `ready`, and those of `due`, in the order of claiming, and skips those that others have in hand. `grant` says of
    /// each whether it exists: an entry that somebody left without its execution stays where it is, for a restore may yet bring that. So
    /// does what `is_refused`. Returns whether entries were there, all of them of owners for whom the caller may not act.
    fn take(
        &self,
        wanted: &QueueClaim,
        mut due: Vec<DueRetry>,
        now: Instant,
        is_refused: &mut dyn FnMut(Uuid) -> bool,
        grant: &mut dyn FnMut(Uuid) -> bool,
    ) -> bool {
        let waiting = &self.waiting;
        let from = scan_start::first_position(waiting, &wanted.queue, now);
        let mut order = Waiting::from(self.tables.scan(waiting, c"ready_order"), &wanted.queue, from);
        let mut retries = self.retries.as_ref().map(|retries| (retries, self.tables.scan(retries, c"retry_pkey")));
        let limit = usize::try_from(wanted.limit).unwrap_or(usize::MAX);
        let (mut taken, mut taken_ready, mut asked) = (0, 0, None);
        let (mut any, mut any_of_caller) = (false, false);
        let mut has_ready = order.next(Index::next);
        while taken < limit {
            pgrx::check_for_interrupts!();
            let ready_at = (has_ready && !due.is_empty()).then(|| scan_start::position(waiting));
            let retry = due.pop_if(|retry| ready_at.is_none_or(|at| retry.at < at));
            let (table, id) = match (retry, &mut retries) {
                (Some(retry), Some((retries, by_time))) => {
                    if !by_time.find(&retry.place()) {
                        continue;
                    }
                    (*retries, retry.id)
                }
                _ if has_ready => (waiting, waiting.get_required(ready::EXECUTION_ID)),
                _ => break,
            };
            let is_ready = std::ptr::eq(table, waiting);
            let owner: Oid = table.get_required(if is_ready { ready::OWNER } else { retry::OWNER });
            if asked.is_none_or(|(known, _)| known != owner) {
                asked = Some((owner, role::may_act_for(wanted.caller, owner)));
            }
            let of_caller = asked.is_some_and(|(_, may)| may);
            any = true;
            any_of_caller |= of_caller;
            if of_caller && !is_refused(id) && table.delete_unless_locked() {
                if grant(id) {
                    taken += 1;
                    taken_ready += usize::from(is_ready);
                } else if is_ready {
                    self.put_back(&wanted.queue);
                } else {
                    put_back_retry(table);
                }
            }
            if is_ready && taken < limit {
                has_ready = order.next(Index::next);
            }
        }
        scan_start::took(taken_ready);
        any && !any_of_caller
    }

    /// Puts the entry back that was just taken.
    fn put_back(&self, queue: &str) {
        let waiting = &self.waiting;
        let columns = [ready::QUEUE, ready::PRIORITY, ready::PLAN_TIME, ready::EXECUTION_ID, ready::OWNER];
        let row: ReadyRow = layouts::row(columns.map(|column| (column, waiting.datum(column))));
        waiting.insert(&row);
        Order::of(waiting.oid(), queue).into_iter().for_each(|order| order.added(scan_start::position(waiting)));
    }
}

impl LedgerTables {
    /// Puts executions into the queue of their job, those that are to run later among what waits for a time; their ids. Their keys are new for
    /// certain, or become so by the plan times that are drawn. `priority`: what they were given in place of the job's.
    /// `None` where the job is done at once, or a table is not as expected.
    pub fn enqueue(
        &self,
        job_name: &str,
        new: &[(NewExecution, &Jsonb)],
        priority: Option<i32>,
        draw: Option<&mut PlanTimeDraw>,
        now: Instant,
    ) -> Option<Vec<Uuid>> {
        let schema = self.leases.schema;
        let waiting = Table::open_to_write(schema, &layouts::READY, &self.leases.workspace)?;
        let is_any_delayed = new.iter().any(|(new, _)| new.waits_until(now).is_some());
        let retries = if is_any_delayed {
            Some(Table::open_to_write(schema, &layouts::RETRY, &self.leases.workspace)?)
        } else {
            None
        };
        // After the wait for the tables' locks: meanwhile another role may have defined a job of this name.
        if let Some(job) = job_cache::read(schema, job_name)? {
            // All were made of one job, as it was known before.
            let is_as_known = new.first().is_none_or(|(new, _)| {
                (new.owner, new.queue) == (job.owner, job.ready_queue.as_str())
                    && new.priority == priority.unwrap_or(job.priority)
            });
            if job.delivered_when_fired || !is_as_known {
                return None;
            }
        }
        let enqueued = ids::execution_ids(new.len(), now);
        let rows = new.iter().zip(&enqueued).map(|((new, payload), id)| new_row(*id, new, "enqueue", payload, now));
        let mut entries: Vec<LedgerRow> = rows.collect();
        let mut plan_times: Vec<TimestampWithTimeZone> = new.iter().map(|(new, _)| new.plan_time).collect();
        match draw {
            None => self.ledger.insert_all(&entries),
            Some(draw) => {
                for ((entry, plan_time), (new, _)) in entries.iter_mut().zip(&mut plan_times).zip(new) {
                    *plan_time = self.insert_drawn(entry, new.key, draw);
                }
            }
        }
        let mut places: Vec<ReadyRow> = Vec::with_capacity(new.len());
        for (entry, ((new, _), id)) in entries.iter().zip(new.iter().zip(&enqueued)) {
            if new.waits_until(now).is_some() {
                continue;
            }
            places.push(layouts::row([
                (ready::QUEUE, entry[ledger::QUEUE.index()]),
                (ready::PRIORITY, entry[ledger::PRIORITY.index()]),
                (ready::PLAN_TIME, entry[ledger::PLAN_TIME.index()]),
                (ready::EXECUTION_ID, id.into_datum()),
                (ready::OWNER, entry[ledger::OWNER.index()]),
            ]));
        }
        waiting.insert_all(&places);
        if let Some(retries) = &retries {
            add_delayed(retries, &entries);
        }
        // All are of one job, and so of one queue.
        let added =
            new.iter().zip(plan_times).zip(&enqueued).filter(|(((new, _), _), _)| new.waits_until(now).is_none());
        let first =
            added.map(|(((new, _), plan_time), id)| (Position::new(new.priority, plan_time, *id), new.queue)).min();
        if let Some((at, queue)) = first {
            Order::of(waiting.oid(), queue).into_iter().for_each(|order| order.added(at));
        }
        if let Some((first, _)) = new.first() {
            counted::enqueued(job_name, first.queue, first.owner, enqueued.len() as u64);
        }
        Some(enqueued)
    }

    /// Inserts a row under the first plan time that nobody has, without waiting for anybody; that time.
    fn insert_drawn(&self, row: &mut LedgerRow, key: Uuid, draw: &mut PlanTimeDraw) -> TimestampWithTimeZone {
        let mut time = draw.next(key);
        loop {
            pgrx::check_for_interrupts!();
            let plan_time = timestamp(time);
            row[ledger::PLAN_TIME.index()] = plan_time.into_datum();
            if self.ledger.insert_unless_taken(row, c"ledger_key") {
                return plan_time;
            }
            time = draw.later(key);
        }
    }
}

/// Puts the entry back that was just taken from what waits for a time.
fn put_back_retry(retries: &Table) {
    let columns = [retry::RETRY_AT, retry::EXECUTION_ID, retry::QUEUE, retry::PRIORITY, retry::PLAN_TIME, retry::OWNER];
    let row: RetryRow = layouts::row(columns.map(|column| (column, retries.datum(column))));
    retries.insert(&row);
    let at = Position::at_entry(
        retries.get_required::<TimestampWithTimeZone>(retry::RETRY_AT),
        retries.get_required(retry::EXECUTION_ID),
    );
    Order::of(retries.oid(), "").into_iter().for_each(|order| order.added(at));
}

/// Has those of these rows of the ledger wait for their time that are to run later.
fn add_delayed(retries: &Table, entries: &[LedgerRow]) {
    let delayed = entries.iter().filter(|entry| entry[ledger::NEXT_RETRY_AT.index()].is_some());
    let rows: Vec<RetryRow> = delayed
        .map(|entry| {
            layouts::row([
                (retry::RETRY_AT, entry[ledger::NEXT_RETRY_AT.index()]),
                (retry::EXECUTION_ID, entry[ledger::ID.index()]),
                (retry::QUEUE, entry[ledger::QUEUE.index()]),
                (retry::PRIORITY, entry[ledger::PRIORITY.index()]),
                (retry::PLAN_TIME, entry[ledger::PLAN_TIME.index()]),
                (retry::OWNER, entry[ledger::OWNER.index()]),
            ])
        })
        .collect();
    retries.insert_all(&rows);
    // A timestamp's datum is its number.
    let first = rows.iter().filter_map(|row| row[retry::RETRY_AT.index()]).map(|time| time.value() as i64).min();
    if let (Some(at), Some(order)) = (first, Order::of(retries.oid(), "")) {
        order.added(Position::at(at));
    }
}
