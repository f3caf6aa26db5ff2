//! Executions without a schedule, many at a time.

use pgrx::datum::{TimestampWithTimeZone, Uuid};
use pgrx::pg_sys::Oid;
use scheduler_core::Instant;

use crate::pg::convert::timestamp;
use crate::pg::jsonb::Jsonb;
use crate::pg::record::Record;
use crate::pg::Session;
use crate::store::counted;
use crate::store::execution::ids;
use crate::store::low_water_marks;
use crate::store::queue::delivery;
use crate::store::queue::draw::PlanTimeDraw;
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
    /// When each can be claimed; `None` = at once.
    pub run_ats: Vec<Option<TimestampWithTimeZone>>,
    /// The priority of all; `None` = the job's.
    pub priority: Option<i32>,
}

/// What came of inserting executions, for those who wait for some.
#[derive(Default)]
pub struct Added {
    /// Queues in which something became claimable.
    pub queues: Vec<String>,
    /// When the first of those is due that are to run later.
    pub first_due: Option<TimestampWithTimeZone>,
}

impl Added {
    /// Takes in one that waits in this queue, or for this time.
    pub fn add(&mut self, queue: String, due: Option<TimestampWithTimeZone>) {
        let is_known = due.is_some() || self.queues.contains(&queue);
        self.absorb(Added { queues: if is_known { Vec::new() } else { vec![queue] }, first_due: due });
    }

    /// Takes in what came of some more.
    pub fn absorb(&mut self, other: Added) {
        self.queues.extend(other.queues);
        let times = [self.first_due, other.first_due];
        self.first_due = times.into_iter().flatten().min_by_key(|time| i64::from(*time));
    }
}

/// Inserts those that the ledger does not hold, if the job is not another role's by then: one for whose owner `role` may not act.
pub fn insert(session: &Session, batch: &EnqueueBatch, role: Oid, now: Instant) -> EnqueuedExecutions {
    let ids = ids::execution_ids(batch.keys.len(), now);
    let added = insert_as(session, batch, role, ids.clone(), now);
    EnqueuedExecutions { ids, added }
}

/// How many keys are held at once, at most: each is an entry of the server's lock table.
const HELD_AT_ONCE: usize = 50;

/// What came of inserting executions.
pub struct EnqueuedExecutions {
    /// Their ids; of those that the ledger held already, one that nothing has.
    pub ids: Vec<Uuid>,
    /// What came of it.
    pub added: Added,
}

/// Inserts all of them, under plan times that nobody has; `None` where one was not inserted that nobody has.
pub fn insert_drawn(
    session: &Session,
    batch: &EnqueueBatch,
    role: Oid,
    draw: &mut PlanTimeDraw,
    now: Instant,
) -> Option<EnqueuedExecutions> {
    let mut drawn = EnqueuedExecutions { ids: ids::execution_ids(batch.keys.len(), now), added: Added::default() };
    let all: Vec<usize> = (0..batch.keys.len()).collect();
    for some in all.chunks(HELD_AT_ONCE) {
        let mut left = some.to_vec();
        while !left.is_empty() {
            pgrx::check_for_interrupts!();
            let mut part = batch.part(&left);
            let (plan_times, locks) = draw.hold(&part.keys);
            part.plan_times = plan_times.into_iter().map(timestamp).collect();
            let added = insert_as(session, &part, role, left.iter().map(|place| drawn.ids[*place]).collect(), now);
            drop(locks);
            drawn.added.absorb(added);
            let found = find(session, &part);
            if found.len() < left.len() {
                return None;
            }
            // Who inserts row by row asks for no lock: what somebody else has after all gets another time.
            let own = found.iter().zip(&left).map(|((id, _), place)| *id == drawn.ids[*place]);
            left = own.zip(&left).filter(|(is_own, _)| !is_own).map(|(_, place)| *place).collect();
        }
    }
    Some(drawn)
}

impl EnqueueBatch<'_> {
    /// The scope of each.
    pub fn scopes(&self) -> impl Iterator<Item = (&str, &str)> {
        self.scope_ids.iter().map(|scope_id| (self.scope_kind, scope_id.as_str()))
    }

    /// Those in these places.
    pub fn part(&self, places: &[usize]) -> Self {
        fn pick<T: Clone>(all: &[T], places: &[usize]) -> Vec<T> {
            places.iter().map(|place| all[*place].clone()).collect()
        }
        EnqueueBatch {
            keys: pick(&self.keys, places),
            scope_ids: pick(&self.scope_ids, places),
            plan_times: pick(&self.plan_times, places),
            payloads: pick(&self.payloads, places),
            run_ats: pick(&self.run_ats, places),
            ..*self
        }
    }
}

fn insert_as(session: &Session, batch: &EnqueueBatch, role: Oid, ids: Vec<Uuid>, now: Instant) -> Added {
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
            INT4OID,
            TIMESTAMPTZARRAYOID,
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
            role,
            timestamp(now),
            ids,
            delivery::payload_limit(),
            batch.run_ats.clone(),
            batch.priority
        ],
    );
    delivery::deliver(&rows);
    counted::of_rows(&rows);
    let queues: Vec<String> = rows.first().and_then(|row| row.get("queues")).unwrap_or_default();
    low_water_marks::added_to_queues(&queues, &rows);
    let first_due: Option<TimestampWithTimeZone> = rows.first().and_then(|row| row.get("retry_at"));
    if let Some(first_due) = first_due {
        low_water_marks::added_retry(first_due);
    }
    Added { queues, first_due }
}

/// The executions of these keys, in their order, each with its owner. Those that no snapshot shows yet are left out.
pub fn find(session: &Session, batch: &EnqueueBatch) -> Vec<(Uuid, Oid)> {
    statement!(EXECUTIONS_BY_KEYS = "queue/executions_by_keys"(UUIDARRAYOID, TIMESTAMPTZARRAYOID));
    let rows = EXECUTIONS_BY_KEYS.run(session, arguments![batch.keys.clone(), batch.plan_times.clone()]);
    rows.iter().map(|row| (row.get_required("id"), row.get_required("owner"))).collect()
}
