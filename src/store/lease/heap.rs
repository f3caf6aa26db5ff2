//! Leases row by row: what claim.sql, claim_new.sql, claim_stale.sql, execution_by_key.sql, heartbeat.sql and heartbeat_many.sql say (`end_heap`: how they end). Where a table is not as expected there are no `LedgerTables`, and `Ledger` runs the statements.

use std::ffi::CStr;
use std::rc::Rc;

use pgrx::datum::{Interval, TimestampWithTimeZone, Uuid};
use pgrx::pg_sys::{self, Datum, Oid};
use pgrx::IntoDatum;
use scheduler_core::lease::Status;
use scheduler_core::{Instant, Keyword};

use crate::heap::{Condition, Index, LatestSnapshot, ModifyResult, OrderedLookup, Table, Workspace};
use crate::pg::convert::{later, timestamp};
use crate::pg::error::{raise, Failure};
use crate::pg::jsonb::Jsonb;
use crate::pg::record::Record;
use crate::pg::role;
use crate::shmem::low_water_mark::{Order, Position};
use crate::store::execution::{ids, ExistingExecution, KeyLookup, Lease, LeaseOptions, NewExecution};
use crate::store::lease::sql::heartbeat_answer;

use crate::heap::layouts::{self, lease, ledger};
use crate::store::lease::cancel_request;
use crate::store::lease::new_lease::NewLease;
use crate::store::schedule::dropped_heap;

/// The table of leases, opened, and what is committed now.
pub struct LeaseTable {
    pub(in crate::store) schema: Oid,
    pub(in crate::store) workspace: Rc<Workspace>,
    latest: LatestSnapshot,
    pub(in crate::store) lease: Table,
}

/// The ledger beside it.
pub struct LedgerTables {
    pub(in crate::store) leases: LeaseTable,
    pub(in crate::store) ledger: Table,
}

/// A row of the ledger: a value for each column.
pub type LedgerRow = [Option<Datum>; layouts::LEDGER.columns.len()];

impl LeaseTable {
    /// `None` where the table is not as this file expects it.
    pub fn open(schema: Oid) -> Option<LeaseTable> {
        LeaseTable::open_with(schema, |_| Some(())).map(|(leases, ())| leases)
    }

    /// Opens what `others` opens as well before it looks at what is there: after the wait for a lock on a table that was just
    /// written anew, an older look would find that table empty.
    pub(in crate::store) fn open_with<T>(
        schema: Oid,
        others: impl FnOnce(&Rc<Workspace>) -> Option<T>,
    ) -> Option<(LeaseTable, T)> {
        let workspace = Rc::default();
        let lease = Table::open_to_write(schema, &layouts::LEASE, &workspace)?;
        let others = others(&workspace)?;
        Some((LeaseTable { schema, workspace, latest: LatestSnapshot::take(), lease }, others))
    }

    pub(in crate::store) fn scan<'t>(&'t self, table: &'t Table, index: &CStr) -> Index<'t> {
        Index::open(table, index, &self.latest)
    }

    /// To be said when leases were written of which the first is to be looked at by then.
    pub fn mark_added(&self, sweep_at: TimestampWithTimeZone) {
        if let Some(order) = Order::of(self.lease.oid(), "") {
            order.added(Position::at(sweep_at));
        }
    }

    /// Extends the leases that hold and whose owner `caller` may act for; each with whether its run was asked to stop. One that another
    /// transaction has in hand holds as it is: nobody can take it meanwhile, and the others' do not wait for it.
    pub fn heartbeat_many(&self, runs: &[(Uuid, Uuid)], now: Instant, caller: Oid) -> Vec<((Uuid, Uuid), bool)> {
        let beat = |run: &(Uuid, Uuid)| {
            pgrx::check_for_interrupts!();
            let (_, cancel_requested) = self.extend(run.0, run.1, None, None, now, Some(caller))?;
            Some((*run, cancel_requested))
        };
        runs.iter().filter_map(beat).collect()
    }

    /// Extends a lease; the execution's owner and whether it was asked to stop, or `None` where the lease is lost.
    pub fn heartbeat(
        &self,
        execution_id: Uuid,
        lease_token: Uuid,
        stale_timeout: Option<Interval>,
        progress: Option<Jsonb>,
        now: Instant,
    ) -> Option<(Oid, bool)> {
        self.extend(execution_id, lease_token, stale_timeout, progress, now, None)
    }

    /// The same; `None` also where one of many is asked for by a `caller` who may not act for that owner.
    fn extend(
        &self,
        execution_id: Uuid,
        lease_token: Uuid,
        stale_timeout: Option<Interval>,
        progress: Option<Jsonb>,
        now: Instant,
        one_of_many: Option<Oid>,
    ) -> Option<(Oid, bool)> {
        let lease = &self.lease;
        if !self.scan(lease, c"lease_pkey").find(&[Condition::equal(pg_sys::F_UUID_EQ, execution_id)]) {
            return None;
        }
        while lease.get_required::<Uuid>(lease::LEASE_TOKEN) == lease_token {
            if one_of_many.is_some_and(|caller| !role::may_act_for(caller, lease.get_required(lease::OWNER))) {
                return None;
            }
            let stale_after = later(now, stale_timeout.unwrap_or_else(|| lease.get_required(lease::STALE_TIMEOUT)));
            let sweep_at: TimestampWithTimeZone = lease.get_required(lease::SWEEP_AT);
            let sweep_at = if i64::from(sweep_at) < i64::from(stale_after) { sweep_at } else { stale_after };
            let changes = [
                (lease::HEARTBEAT_AT, timestamp(now).into_datum()),
                (lease::STALE_AFTER, stale_after.into_datum()),
                (lease::SWEEP_AT, sweep_at.into_datum()),
                // Last, for it is left out where nothing is said.
                (lease::PROGRESS, progress.clone().and_then(IntoDatum::into_datum)),
            ];
            let given = changes.len() - usize::from(progress.is_none());
            let changes = &changes[..given];
            let result = match one_of_many {
                Some(_) => {
                    // (Before it is asked for: where it is not to be had, nothing is known of the row any more.)
                    let (owner, is_to_stop) = heartbeat_answer(lease, now);
                    let held = (owner, is_to_stop || cancel_request::is_for(self.schema, execution_id, now));
                    let Some(result) = lease.update_unless_locked(changes) else { return Some(held) };
                    result
                }
                None => lease.update(changes),
            };
            match result {
                ModifyResult::Done => {
                    self.mark_added(sweep_at);
                    let (owner, is_to_stop) = heartbeat_answer(lease, now);
                    return Some((owner, is_to_stop || cancel_request::is_for(self.schema, execution_id, now)));
                }
                ModifyResult::Updated => {}
                ModifyResult::Deleted => return None,
            }
        }
        None
    }
}

/// How often a claim inserts a key that it finds free, and free again after somebody else was in the way.
const MOST_TRIES: usize = 10;

impl LedgerTables {
    /// `None` where a table is not as this file expects it.
    pub fn open(schema: Oid) -> Option<LedgerTables> {
        LedgerTables::open_with(schema, |_| Some(())).map(|(rows, ())| rows)
    }

    /// As `LeaseTable::open_with`.
    pub(in crate::store) fn open_with<T>(
        schema: Oid,
        others: impl FnOnce(&Rc<Workspace>) -> Option<T>,
    ) -> Option<(LedgerTables, T)> {
        let both = |workspace: &Rc<Workspace>| {
            Some((Table::open_to_write(schema, &layouts::LEDGER, workspace)?, others(workspace)?))
        };
        let (leases, (ledger, others)) = LeaseTable::open_with(schema, both)?;
        Some((LedgerTables { leases, ledger }, others))
    }

    pub(in crate::store) fn scan<'t>(&'t self, table: &'t Table, index: &CStr) -> Index<'t> {
        self.leases.scan(table, index)
    }

    pub(in crate::store) fn lookup_leases(&self) -> OrderedLookup<'_> {
        OrderedLookup::open(&self.leases.lease, c"lease_pkey", lease::EXECUTION_ID, &self.leases.latest)
    }

    pub(in crate::store) fn lookup_ledger(&self) -> OrderedLookup<'_> {
        OrderedLookup::open(&self.ledger, c"ledger_pkey", ledger::ID, &self.leases.latest)
    }

    /// The execution of this key and plan time.
    pub fn by_key(&self, key: Uuid, plan_time: TimestampWithTimeZone, now: Instant) -> KeyLookup {
        let (entry, lease) = (&self.ledger, &self.leases.lease);
        let key = ledger_key(key, plan_time);
        let mut entries = self.scan(entry, c"ledger_key");
        if !entries.is_taken(&key) {
            return KeyLookup::Free;
        }
        if !entries.find(&key) {
            return KeyLookup::InHand;
        }
        let id: Uuid = entry.get_required(ledger::ID);
        let can_only_end = self.is_of_dropped_schedule(now) || cancel_request::is_for(self.leases.schema, id, now);
        let leased = self.scan(lease, c"lease_pkey").find(&[Condition::equal(pg_sys::F_UUID_EQ, id)]);
        KeyLookup::Existing(ExistingExecution::of(entry, leased.then_some(lease), can_only_end, now))
    }

    /// Whether the ledger's current row was left by a schedule that was dropped with all that it had pending.
    fn is_of_dropped_schedule(&self, now: Instant) -> bool {
        let Some(schedule_id) = self.ledger.get::<i64>(ledger::SCHEDULE_ID) else { return false };
        dropped_heap::with(self.leases.schema, now, |dropped| dropped.is_some_and(|dropped| dropped.has(schedule_id)))
    }

    /// Inserts an execution together with its first lease; `None` where somebody else was first, without waiting for him.
    pub fn claim_new(&self, new: &NewExecution, options: &LeaseOptions, now: Instant) -> Option<Lease> {
        let id = ids::execution_id();
        let max_attempts = options.max_attempts.unwrap_or(new.max_attempts);
        let payload = Jsonb::empty();
        let mut row = new_row(id, new, "claim", &payload, now);
        row[ledger::MAX_ATTEMPTS.index()] = max_attempts.into_datum();
        if let Some(allowed) = options.allow_stale_reentry {
            row[ledger::ALLOW_STALE_REENTRY.index()] = allowed.into_datum();
        }
        // While the index is built anew (REINDEX CONCURRENTLY) there are two of it, and of two claimers each may meet the other's row, not
        // withdrawn yet, in one of them. The last to withdraw his finds the key free.
        let mut tries = 1;
        while !self.ledger.insert_unless_taken(&row, c"ledger_key") {
            let key = ledger_key(new.key, new.plan_time);
            if tries == MOST_TRIES || self.scan(&self.ledger, c"ledger_key").is_taken(&key) {
                return None;
            }
            tries += 1;
        }
        let granted = NewLease::new(self.leases.schema, id, 1, new.owner, options, now);
        self.leases.lease.insert(&granted.row(options.runner_id.as_str().into_datum(), now));
        self.leases.mark_added(granted.stale_after);
        Some(granted.lease(max_attempts, payload, new.queue))
    }

    /// Takes over the stale run that `by_key` has just found; `None` where somebody else has it in hand.
    pub fn claim_stale(&self, known: &ExistingExecution, options: &LeaseOptions, now: Instant) -> Option<Lease> {
        let (entry, lease) = (&self.ledger, &self.leases.lease);
        let attempt = known.limits.attempt.saturating_add(1);
        let granted = NewLease::new(self.leases.schema, known.id, attempt, known.owner, options, now);
        let at = timestamp(now).into_datum();
        let changes = [
            (lease::LEASE_TOKEN, granted.lease_token.into_datum()),
            (lease::FENCE, granted.fence.into_datum()),
            (lease::ATTEMPT, attempt.into_datum()),
            (lease::STARTED_AT, at),
            (lease::HEARTBEAT_AT, at),
            (lease::STALE_AFTER, granted.stale_after.into_datum()),
            (lease::SWEEP_AT, granted.stale_after.into_datum()),
            (lease::STALE_TIMEOUT, granted.stale_timeout.into_datum()),
            (lease::RUNNER_ID, options.runner_id.as_str().into_datum()),
            (lease::PROGRESS, None),
            (lease::RUN_UNTIL, granted.run_until.into_datum()),
        ];
        if !lease.lock(&self.leases.latest) || lease.update(&changes) != ModifyResult::Done {
            return None;
        }
        self.leases.mark_added(granted.stale_after);
        loop {
            let stored = (
                entry.get_required::<i32>(ledger::MAX_ATTEMPTS),
                entry.get_required::<bool>(ledger::ALLOW_STALE_REENTRY),
            );
            let wanted = (options.max_attempts.unwrap_or(stored.0), options.allow_stale_reentry.unwrap_or(stored.1));
            let changes =
                [(ledger::MAX_ATTEMPTS, wanted.0.into_datum()), (ledger::ALLOW_STALE_REENTRY, wanted.1.into_datum())];
            let result = if stored == wanted { ModifyResult::Done } else { entry.update(&changes) };
            match result {
                ModifyResult::Done => {
                    return Some(granted.lease(wanted.0, entry.get_required(ledger::PAYLOAD), &known.queue))
                }
                ModifyResult::Updated => {}
                ModifyResult::Deleted => raise(Failure::internal("an execution went while it was running")),
            }
        }
    }
}

/// What a row of the index `ledger_key` is found by.
fn ledger_key(key: Uuid, plan_time: TimestampWithTimeZone) -> [Condition; 2] {
    [Condition::equal(pg_sys::F_UUID_EQ, key), Condition::equal(pg_sys::F_TIMESTAMPTZ_EQ, plan_time)]
}

/// A row of the ledger that nobody has claimed yet.
pub(in crate::store) fn new_row(
    id: Uuid,
    new: &NewExecution,
    origin: &str,
    payload: &Jsonb,
    now: Instant,
) -> LedgerRow {
    let at = timestamp(now).into_datum();
    layouts::row([
        (ledger::ID, id.into_datum()),
        (ledger::KEY, new.key.into_datum()),
        (ledger::JOB_NAME, new.job_name.into_datum()),
        (ledger::SCOPE_KIND, new.scope_kind.into_datum()),
        (ledger::SCOPE_ID, new.scope_id.into_datum()),
        (ledger::PLAN_TIME, new.plan_time.into_datum()),
        (ledger::QUEUE, new.queue.into_datum()),
        (ledger::PRIORITY, new.priority.into_datum()),
        (ledger::PAYLOAD, payload.clone().into_datum()),
        (ledger::STATUS, Status::Pending.as_str().into_datum()),
        (ledger::ATTEMPT, 0.into_datum()),
        (ledger::MAX_ATTEMPTS, new.max_attempts.into_datum()),
        (ledger::ALLOW_STALE_REENTRY, new.allow_stale_reentry.into_datum()),
        (ledger::AWAITED, false.into_datum()),
        (ledger::ORIGIN, origin.into_datum()),
        (ledger::OWNER, new.owner.into_datum()),
        (ledger::CREATED_AT, at),
        (ledger::UPDATED_AT, at),
        (ledger::RUN_AT, new.run_at.into_datum()),
        (ledger::NEXT_RETRY_AT, new.waits_until(now).into_datum()),
    ])
}
