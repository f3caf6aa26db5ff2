//! What a queue hands out: what `claim` asks for, and what it gives, by whichever way.

use pgrx::datum::{Interval, TimestampWithTimeZone, Uuid};
use pgrx::pg_sys::Oid;
use scheduler_core::Instant;

use crate::heap::layouts::{job, lease, ledger};
use crate::pg::convert::timestamp;
use crate::pg::jsonb::Jsonb;
use crate::pg::record::{Column, Record};
use crate::pg::session::Row;
use crate::pg::Session;
use crate::store::counted;
use crate::store::low_water_marks;
use crate::{arguments, statement};

/// What claim() asks for.
pub struct QueueClaim {
    /// Which queue.
    pub queue: String,
    /// How many at most.
    pub limit: i64,
    /// Who claims.
    pub runner_id: String,
    /// Length of the leases; `None` = each job's.
    pub stale_timeout: Option<Interval>,
    /// Length of the leases where a job has none.
    pub default_stale_timeout: Interval,
    /// The leases last as long as the process of who claims.
    pub lasts_as_process: bool,
    /// Whose executions may be claimed.
    pub caller: Oid,
}

/// An execution that claim() leased.
pub struct Claimed {
    /// Which.
    pub execution_id: Uuid,
    /// Proves the lease.
    pub lease_token: Uuid,
    /// Rises with every lease.
    pub fence: i64,
    /// 1 for the first.
    pub attempt: i32,
    /// Its job.
    pub job_name: String,
    /// Its scope.
    pub scope_kind: String,
    /// Its scope.
    pub scope_id: String,
    /// Its plan time.
    pub plan_time: TimestampWithTimeZone,
    /// What it carries.
    pub payload: Jsonb,
    /// The end of the lease without a heartbeat.
    pub stale_after: TimestampWithTimeZone,
    /// Attempts allowed.
    pub max_attempts: i32,
    /// The job's longest run.
    pub run_timeout: Option<Interval>,
}

/// Of a lease that a claim gave, what its holder is told beside the execution.
pub struct GrantedLease {
    /// The execution.
    pub execution_id: Uuid,
    /// Proves the lease.
    pub lease_token: Uuid,
    /// Rises with every lease.
    pub fence: i64,
    /// 1 for the first.
    pub attempt: i32,
    /// The end of the lease without a heartbeat.
    pub stale_after: TimestampWithTimeZone,
    /// The job's longest run.
    pub run_timeout: Option<Interval>,
}

impl GrantedLease {
    fn of(lease: &Row) -> GrantedLease {
        GrantedLease {
            execution_id: lease.get_required(lease::EXECUTION_ID),
            lease_token: lease.get_required(lease::LEASE_TOKEN),
            fence: lease.get_required(lease::FENCE),
            attempt: lease.get_required(lease::ATTEMPT),
            stale_after: lease.get_required(lease::STALE_AFTER),
            run_timeout: lease.get(job::RUN_TIMEOUT),
        }
    }
}

impl Claimed {
    /// By its row of the ledger and the lease that `grant` gives it, which is told the job.
    pub fn of(
        entry: &impl Record<Column>,
        claim: &QueueClaim,
        now: Instant,
        grant: impl FnOnce(&str) -> GrantedLease,
    ) -> Claimed {
        let job_name: String = entry.get_required(ledger::JOB_NAME);
        let GrantedLease { execution_id, lease_token, fence, attempt, stale_after, run_timeout } = grant(&job_name);
        counted::claimed_entry(entry, &claim.queue, attempt, now);
        Claimed {
            execution_id,
            lease_token,
            fence,
            attempt,
            job_name,
            scope_kind: entry.get_required(ledger::SCOPE_KIND),
            scope_id: entry.get_required(ledger::SCOPE_ID),
            plan_time: entry.get_required(ledger::PLAN_TIME),
            payload: entry.get_required(ledger::PAYLOAD),
            stale_after,
            max_attempts: entry.get_required(ledger::MAX_ATTEMPTS),
            run_timeout,
        }
    }
}

/// Leases what is claimable in a queue.
pub fn claim(session: &Session, claim: &QueueClaim, now: Instant) -> Vec<Claimed> {
    statement!(
        CLAIM = "queue/claim"(TEXTOID, INT8OID, TEXTOID, INTERVALOID, INTERVALOID, TIMESTAMPTZOID, OIDOID, BOOLOID)
    );
    let rows = CLAIM.run(
        session,
        arguments![
            claim.queue.as_str(),
            claim.limit,
            claim.runner_id.as_str(),
            claim.stale_timeout,
            claim.default_stale_timeout,
            timestamp(now),
            claim.caller,
            claim.lasts_as_process
        ],
    );
    let claimed = rows.iter().map(|row| Claimed::of(&row, claim, now, |_| GrantedLease::of(&row)));
    let claimed: Vec<Claimed> = claimed.collect();
    low_water_marks::added_leases(claimed.iter().map(|claimed| claimed.stale_after));
    claimed
}
