//! The ledger and its leases as the functions of `api/` use them: row by row (`heap`) where the tables are as they were made, by
//! statements where a superuser gave them more to do (a trigger, a column).

use pgrx::datum::{Interval, TimestampWithTimeZone, Uuid};
use pgrx::pg_sys::Oid;
use scheduler_core::Instant;

use crate::pg::error::Outcome;
use crate::pg::jsonb::Jsonb;
use crate::pg::session::Owner;
use crate::store::counted;
use crate::store::execution::{self, ExistingExecution, KeyLookup, Lease, LeaseOptions, NewExecution};
use crate::store::fast_path;
use crate::store::job::{self, Job};
use crate::store::lease::end::{EndedRun, Ending, FinishResult};
use crate::store::lease::heap::{LeaseTable, LedgerTables};
use crate::store::lease::key_lock::KeyLock;
use crate::store::queue::draw::PlanTimeDraw;
use crate::store::queue::pause;
use crate::store::shard;

pub mod cancel_request;
pub mod end;
mod end_heap;
pub mod heap;
pub mod insert_prediction;
pub mod key_lock;
pub mod new_lease;
pub mod sql;

/// The ledger, as one call of a function sees it.
pub struct Ledger<'o> {
    tables: Option<LedgerTables>,
    owner: &'o Owner,
}

impl<'o> Ledger<'o> {
    /// Opens it for what is committed now.
    pub fn open(owner: &'o Owner) -> Ledger<'o> {
        Ledger { tables: fast_path::open(owner.schema, LedgerTables::open), owner }
    }

    /// `55000` where one of these scopes is another server's; what is not stays so until the transaction ends.
    pub fn require_here<'a>(&self, scopes: impl IntoIterator<Item = (&'a str, &'a str)>) -> Outcome<()> {
        self.keep_buckets();
        shard::require(|| self.owner.session(), scopes)
    }

    /// Has the buckets of this server stay as they are until the transaction ends.
    pub fn keep_buckets(&self) {
        // Row by row, the tables are locked.
        if self.tables.is_none() {
            shard::lock();
        }
    }

    /// The job of this name, as this session knows it (`job::find`).
    pub fn job(&self, name: &str) -> Option<Job> {
        job::find(self.owner, name)
    }

    /// Whether to claim a key as a new one before asking what there is of it (`insert_prediction`).
    pub fn expects_new(&self) -> bool {
        self.tables.as_ref().is_some_and(LedgerTables::expects_new)
    }

    /// The execution of this key and plan time.
    pub fn by_key(&self, key: Uuid, plan_time: TimestampWithTimeZone, now: Instant) -> KeyLookup {
        let found = match &self.tables {
            Some(tables) => tables.by_key(key, plan_time, now),
            None => execution::by_key(self.owner.session(), key, plan_time, now)
                .map_or(KeyLookup::Free, KeyLookup::Existing),
        };
        if !matches!(found, KeyLookup::Free) {
            insert_prediction::reset();
        }
        found
    }

    /// Whether nothing of this owner is to be claimed of a queue.
    fn is_paused(&self, queue: &str, owner: Oid, now: Instant) -> bool {
        let may_be = match &self.tables {
            Some(tables) => pause::is_any_paused_now(tables.leases.schema, queue, now),
            None => true,
        };
        may_be && pause::is_paused(self.owner.session(), queue, Some(owner))
    }

    /// Inserts an execution together with its first lease; `None` where somebody else was first, without waiting for him, or its queue
    /// is paused.
    pub fn claim_new(&self, new: &NewExecution, options: &LeaseOptions, now: Instant) -> Option<Lease> {
        if self.is_paused(new.queue, new.owner, now) {
            return None;
        }
        let lease = match &self.tables {
            Some(tables) => insert_prediction::learn(|| tables.claim_new(new, options, now)),
            None => {
                let _lock = KeyLock::try_take(new.key, new.plan_time)?;
                execution::claim_new(self.owner.session(), new, options, now)
            }
        }?;
        counted::claimed(new.job_name, new.queue, new.owner, 1, Some(now.as_micros()), now);
        Some(lease)
    }

    /// Leases an execution that waits; `None` where somebody else has it in hand, or its queue is paused.
    pub fn claim_known(
        &self,
        known: ExistingExecution,
        job_name: &str,
        plan_time: TimestampWithTimeZone,
        options: LeaseOptions,
        now: Instant,
    ) -> Option<Lease> {
        if self.is_paused(&known.queue, known.owner, now) {
            return None;
        }
        let (owner, planned_for) = (known.owner, known.planned_for);
        let lease = execution::claim_known(self.owner.session(), known, plan_time, options, now)?;
        counted::claimed(job_name, &lease.queue, owner, lease.attempt, planned_for, now);
        Some(lease)
    }

    /// Takes over the stale run that `by_key` has just found; `None` where somebody else has it in hand, or its queue is
    /// paused.
    pub fn claim_stale(
        &self,
        known: ExistingExecution,
        job_name: &str,
        options: LeaseOptions,
        now: Instant,
    ) -> Option<Lease> {
        if self.is_paused(&known.queue, known.owner, now) {
            return None;
        }
        let owner = known.owner;
        let lease = match &self.tables {
            Some(tables) => tables.claim_stale(&known, &options, now),
            None => execution::claim_stale(self.owner.session(), known, options, now),
        }?;
        counted::claimed(job_name, &lease.queue, owner, lease.attempt, None, now);
        Some(lease)
    }

    /// Puts executions into the queue of their job whose keys are new for certain, or become so by the plan times that are drawn; their
    /// ids, or `None` where a statement has to do it.
    pub fn enqueue(
        &self,
        job_name: &str,
        new: &[(NewExecution, &Jsonb)],
        priority: Option<i32>,
        draw: Option<&mut PlanTimeDraw>,
        now: Instant,
    ) -> Option<Vec<Uuid>> {
        self.tables.as_ref().and_then(|tables| tables.enqueue(job_name, new, priority, draw, now))
    }

    /// Ends the attempt that this lease is for; `None` where the lease is lost.
    pub fn end(&self, run: (Uuid, Uuid), ending: Ending, now: Instant) -> Option<EndedRun> {
        let ended = self.tables.as_ref().and_then(|tables| tables.end(run, &ending, now));
        ended.unwrap_or_else(|| sql::end(self.owner.session(), run, ending, now))
    }

    /// Ends runs as SUCCESS; those that did not end and those that are awaited.
    pub fn finish_success_many(&self, runs: &[(Uuid, Uuid)], now: Instant, caller: Oid) -> Vec<FinishResult> {
        match &self.tables {
            Some(tables) => tables.finish_success_many(runs, now, caller),
            None => sql::finish_success_many(self.owner.session(), runs, now, caller),
        }
    }
}

/// Extends a lease; the execution's owner and whether it was asked to stop, or `None` where the lease is lost.
pub fn heartbeat(
    owner: &Owner,
    execution_id: Uuid,
    lease_token: Uuid,
    stale_timeout: Option<Interval>,
    progress: Option<Jsonb>,
    now: Instant,
) -> Option<(Oid, bool)> {
    match fast_path::open(owner.schema, LeaseTable::open) {
        Some(leases) => leases.heartbeat(execution_id, lease_token, stale_timeout, progress, now),
        None => sql::heartbeat(owner.session(), execution_id, lease_token, stale_timeout, progress, now),
    }
}

/// Extends the leases that hold and whose owner `caller` may act for; each with whether its run was asked to stop. `runs` are in the
/// order of their ids, none twice.
pub fn heartbeat_many(owner: &Owner, runs: &[(Uuid, Uuid)], now: Instant, caller: Oid) -> Vec<((Uuid, Uuid), bool)> {
    match fast_path::open(owner.schema, LeaseTable::open) {
        Some(leases) => leases.heartbeat_many(runs, now, caller),
        None => sql::heartbeat_many(owner.session(), runs, now, caller),
    }
}
