//! Executions without a schedule, many at a time.

use pgrx::datum::{TimestampWithTimeZone, Uuid};
use pgrx::pg_sys::Oid;
use scheduler_core::Instant;

use crate::pg::convert::timestamp;
use crate::pg::jsonb::Jsonb;
use crate::pg::Session;
use crate::store::execution::ids;
use crate::store::low_water_marks;
use crate::store::queue::delivery;
use crate::{arguments, statement};

/// Executions of one job and kind of scope.
pub struct EnqueueBatch<'a> {
    /// The job.
    pub job_name: &'a str,
    /// The kind of scope of all.
    pub scope_kind: &'a str,
    /// Who owns them where the job was never defined.
    pub caller: Oid,
    /// The hash of job and scope, of each.
    pub keys: Vec<Uuid>,
    /// The scope of each.
    pub scope_ids: Vec<String>,
    /// The plan time of each.
    pub plan_times: Vec<TimestampWithTimeZone>,
    /// What each carries.
    pub payloads: Vec<Jsonb>,
}

/// Inserts those that the ledger does not hold; queues in which something became claimable.
pub fn insert(session: &Session, batch: &EnqueueBatch, now: Instant) -> Vec<String> {
    statement!(
        EXECUTIONS_ENQUEUE = "queue/executions_enqueue"(
            TEXTOID,
            TEXTOID,
            UUIDARRAYOID,
            TEXTARRAYOID,
            TIMESTAMPTZARRAYOID,
            JSONBARRAYOID,
            REGROLEOID,
            TIMESTAMPTZOID,
            UUIDARRAYOID,
            INT4OID
        )
    );
    let rows = EXECUTIONS_ENQUEUE.run(
        session,
        arguments![
            batch.job_name,
            batch.scope_kind,
            batch.keys.clone(),
            batch.scope_ids.clone(),
            batch.plan_times.clone(),
            batch.payloads.clone(),
            batch.caller,
            timestamp(now),
            ids::execution_ids(batch.keys.len(), now),
            delivery::payload_limit()
        ],
    );
    delivery::deliver(&rows, 2);
    let queues: Vec<String> = rows.first().and_then(|row| row.get(1)).unwrap_or_default();
    low_water_marks::added_to_queues(&queues, &rows, 6);
    queues
}

/// The executions of these keys, in their order, each with its owner. Those that no snapshot shows yet are left out.
pub fn find(session: &Session, batch: &EnqueueBatch) -> Vec<(Uuid, Oid)> {
    statement!(EXECUTIONS_BY_KEYS = "queue/executions_by_keys"(UUIDARRAYOID, TIMESTAMPTZARRAYOID));
    let rows = EXECUTIONS_BY_KEYS.run(session, arguments![batch.keys.clone(), batch.plan_times.clone()]);
    rows.iter().map(|row| (row.get_required(1), row.get_required(2))).collect()
}
