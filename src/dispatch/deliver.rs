//! Executions of jobs of kind `notify` and `log` that were enqueued for later are delivered when they are due.

use pgrx::datum::Uuid;
use pgrx::PgSqlErrorCode;
use scheduler_core::schedule::MOST_BYTES;
use scheduler_core::Instant;

use crate::dispatch::bisect::bisect_unless;
use crate::dispatch::notify::notify;
use crate::dispatch::runs;
use crate::pg::error::{raise, Failure};
use crate::pg::Session;
use crate::store::job;
use crate::store::lease::sql as leases;
use crate::store::queue::delivery_queue::{self, Delivery, JobNow};

/// Delivers up to `limit` of those that are due; how many were looked at.
///
/// One that fails (a payload that NOTIFY does not take) fails as a run does. While the server's queue of notifications is full none is
/// at fault, and all of them wait: `53400`.
pub fn deliver(session: &Session, now: Instant, limit: i64) -> usize {
    delivery_queue::promote(session, now, limit);
    let mut picked = delivery_queue::pick(session, limit);
    keep_within_bytes(&mut picked);
    let (due, others): (Vec<&Delivery>, Vec<&Delivery>) =
        picked.iter().partition(|delivery| delivery.job == JobNow::Delivers);
    let (mut failed, mut full) = (Vec::new(), None);
    bisect_unless(
        &due,
        &mut |part: &[&Delivery]| {
            let ids: Vec<Uuid> = part.iter().map(|delivery| delivery.run.execution_id).collect();
            delivery_queue::deliver(session, ids, now);
        },
        &mut |_, failure| {
            let is_full = failure.code == PgSqlErrorCode::ERRCODE_CONFIGURATION_LIMIT_EXCEEDED;
            if is_full {
                full = Some(failure.clone());
            }
            is_full
        },
        &mut |delivery, failure: Failure| failed.push((*delivery, failure)),
    );
    if let Some(failure) = full {
        raise(failure);
    }
    for (delivery, failure) in failed {
        runs::fail(session, &delivery.run, &failure, now);
    }
    for delivery in others {
        settle(session, delivery, now);
    }
    picked.len()
}

/// Leaves for the next call what is more than others can wait for; one is always delivered.
fn keep_within_bytes(picked: &mut Vec<Delivery>) {
    let mut bytes = 0_usize;
    let fits = picked.iter().take_while(|delivery| {
        bytes = bytes.saturating_add(delivery.payload_bytes);
        bytes <= MOST_BYTES
    });
    let count = fits.count().max(1);
    picked.truncate(count);
}

/// What is not delivered any more goes where its job has its executions, or ends with its job.
fn settle(session: &Session, delivery: &Delivery, now: Instant) {
    match delivery.job {
        JobNow::Delivers => {}
        JobNow::IsRunByOthers => notify(session, job::reroute(session, Some(&delivery.job_name))),
        JobNow::IsGone => {
            leases::cancel_waiting(session, delivery.run.execution_id, now);
        }
    }
}
