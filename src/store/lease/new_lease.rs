//! A lease that is being given: its row, and what who claimed it is told.

use pgrx::datum::{Interval, TimestampWithTimeZone, Uuid};
use pgrx::pg_sys::{Datum, Oid};
use pgrx::IntoDatum;
use scheduler_core::Instant;

use crate::heap::layouts::{self, lease};
use crate::heap::Sequence;
use crate::pg::convert::{later, timestamp};
use crate::pg::jsonb::Jsonb;
use crate::store::execution::{ids, GrantedLease, Lease, LeaseOptions};

type LeaseRow = [Option<Datum>; layouts::LEASE.columns.len()];

/// A lease that is being given.
pub struct NewLease {
    pub execution_id: Uuid,
    pub lease_token: Uuid,
    pub fence: i64,
    pub attempt: i32,
    pub owner: Oid,
    pub stale_timeout: Interval,
    pub stale_after: TimestampWithTimeZone,
    pub run_timeout: Option<Interval>,
    pub run_until: Option<TimestampWithTimeZone>,
}

impl NewLease {
    /// Makes the token and takes the next fence.
    pub fn new(schema: Oid, id: Uuid, attempt: i32, owner: Oid, options: &LeaseOptions, now: Instant) -> NewLease {
        NewLease {
            execution_id: id,
            lease_token: ids::lease_token(),
            fence: Sequence::open(schema, c"fence").next(),
            attempt,
            owner,
            stale_timeout: options.stale_timeout,
            stale_after: later(now, options.stale_timeout),
            run_timeout: options.run_timeout,
            run_until: options.run_until(now),
        }
    }

    /// The row of `sched.lease` of a run that begins now.
    pub fn row(&self, runner_id: Option<Datum>, now: Instant) -> LeaseRow {
        let (at, stale_after) = (timestamp(now).into_datum(), self.stale_after.into_datum());
        layouts::row([
            (lease::EXECUTION_ID, self.execution_id.into_datum()),
            (lease::LEASE_TOKEN, self.lease_token.into_datum()),
            (lease::FENCE, self.fence.into_datum()),
            (lease::ATTEMPT, self.attempt.into_datum()),
            (lease::OWNER, self.owner.into_datum()),
            (lease::STARTED_AT, at),
            (lease::HEARTBEAT_AT, at),
            (lease::STALE_AFTER, stale_after),
            (lease::SWEEP_AT, stale_after),
            (lease::STALE_TIMEOUT, self.stale_timeout.into_datum()),
            (lease::RUNNER_ID, runner_id),
            (lease::CANCEL_REQUESTED, false.into_datum()),
            (lease::RUN_UNTIL, self.run_until.into_datum()),
        ])
    }

    /// What a claim tells of it.
    pub fn granted(&self) -> GrantedLease {
        GrantedLease {
            execution_id: self.execution_id,
            lease_token: self.lease_token,
            fence: self.fence,
            attempt: self.attempt,
            stale_after: self.stale_after,
            run_timeout: self.run_timeout,
        }
    }

    /// What its holder is told.
    pub fn lease(&self, max_attempts: i32, payload: Jsonb, queue: &str) -> Lease {
        Lease {
            execution_id: self.execution_id,
            lease_token: self.lease_token,
            fence: self.fence,
            attempt: self.attempt,
            max_attempts,
            stale_after: self.stale_after,
            payload,
            queue: queue.to_owned(),
            run_timeout: self.run_timeout,
        }
    }
}
