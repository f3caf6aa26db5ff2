//! Executions without a schedule, many at a time.

use pgrx::datum::{TimestampWithTimeZone, Uuid};
use pgrx::pg_sys::Oid;
use scheduler_core::Instant;

use crate::pg::convert::timestamp;
use crate::pg::jsonb::Jsonb;
use crate::pg::Session;
use crate::shmem::low_water_mark;
use crate::store::execution::ids;
use crate::store::queue::delivery;
use crate::{arguments, statement};

/// Executions of one job and kind of scope.
pub struct Many<'a> {
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
pub fn insert(session: &Session, many: &Many, now: Instant) -> Vec<String> {
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
            many.job_name,
            many.scope_kind,
            many.keys.clone(),
            many.scope_ids.clone(),
            many.plan_times.clone(),
            many.payloads.clone(),
            many.caller,
            timestamp(now),
            ids::execution_ids(many.keys.len(), now),
            delivery::taken()
        ],
    );
    delivery::finish(&rows, 2);
    let queues: Vec<String> = rows.first().and_then(|row| row.get(1)).unwrap_or_default();
    low_water_mark::added_to_queues(&queues, &rows, 6);
    queues
}

/// The executions of these keys, in their order, each with its owner. Those that no snapshot shows yet are left out.
pub fn find(session: &Session, many: &Many) -> Vec<(Uuid, Oid)> {
    statement!(EXECUTIONS_BY_KEYS = "queue/executions_by_keys"(UUIDARRAYOID, TIMESTAMPTZARRAYOID));
    let rows = EXECUTIONS_BY_KEYS.run(session, arguments![many.keys.clone(), many.plan_times.clone()]);
    rows.iter().map(|row| (row.must(1), row.must(2))).collect()
}
