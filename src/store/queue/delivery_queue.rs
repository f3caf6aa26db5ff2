//! Queues of what a dispatcher delivers later: executions of jobs of kind `notify` and `log` that are to run at a time, one for each owner and each
//! queue of users. Their names are longer than a queue of users may have: nobody can claim from them, nor listen for them. They end with the job's
//! queue, as those of runners do (`runner_queue`): so a pause of one owner holds without a look at what waits.

use pgrx::datum::Uuid;
use scheduler_core::Instant;

use crate::heap::layouts::job;
use crate::pg::convert::{timestamp, MAX_QUEUE_BYTES};
use crate::pg::memory::PlainSize;
use crate::pg::record::Record;
use crate::pg::session::Row;
use crate::pg::Session;
use crate::store::counted;
use crate::store::job::is_delivered_when_fired;
use crate::store::lease::end::Failing;
use crate::store::low_water_marks;
use crate::store::queue::delivery;
use crate::store::queue::user_queue::DELIVERY_PREFIX as PREFIX;
use crate::store::timer::first_times;
use crate::{arguments, statement};

/// After all of them, in the order of any collation: an owner's number is smaller.
const END: &str = "executions that a dispatcher delivers, for the role with oid 9999999999";

const _: () = assert!(PREFIX.len() > MAX_QUEUE_BYTES);

/// What all of these names begin with, and what comes after all of them.
pub fn bounds() -> [&'static str; 2] {
    [PREFIX, END]
}

/// Whether what waits there is delivered by dispatchers.
pub fn is_delivery_queue(queue: &str) -> bool {
    queue.starts_with(PREFIX)
}

/// An execution that is to be delivered, locked.
pub struct Delivery {
    /// Which, and what its attempts allow.
    pub run: Failing,
    /// Its job.
    pub job_name: String,
    /// What has become of the job.
    pub job: JobNow,
    /// The size of its payload.
    pub payload_bytes: usize,
}

/// What has become of the job of a delivery since that was enqueued.
#[derive(Clone, Copy, PartialEq, Eq)]
pub enum JobNow {
    /// It is delivered.
    Delivers,
    /// Others run it.
    IsRunByOthers,
    /// It was dropped.
    IsGone,
}

/// Has up to `limit` deliveries whose time has come wait beside those that are ready.
pub fn promote(session: &Session, now: Instant, limit: i64) {
    statement!(DELIVERIES_DUE = "queue/deliveries_due"(TIMESTAMPTZOID, INT8OID, TEXTOID, TIMESTAMPTZOID, UUIDOID));
    let (time, id) = first_times::first_retry(session, now);
    for row in DELIVERIES_DUE.run(session, arguments![timestamp(now), limit, PREFIX, timestamp(time), id]).iter() {
        low_water_marks::added_ready(&row.get_required::<String>("queue"), &row);
    }
}

/// Locks up to `limit` of those that are ready.
pub fn pick(session: &Session, limit: i64) -> Vec<Delivery> {
    statement!(DELIVERIES_PICK = "queue/deliveries_pick"(TEXTOID, TEXTOID, INT8OID));
    let rows = DELIVERIES_PICK.run(session, arguments![PREFIX, END, limit]);
    let delivery = |row: Row| {
        let job = match row.get::<String>("kind") {
            None => JobNow::IsGone,
            Some(kind) if is_delivered_when_fired(&kind) => JobNow::Delivers,
            Some(_) => JobNow::IsRunByOthers,
        };
        let run = Failing::of(&row, &row, row.get(job::RETRY_BACKOFF));
        let PlainSize(payload_bytes) = row.get_required("payload");
        Delivery { run, job_name: row.get_required("job_name"), job, payload_bytes }
    };
    rows.iter().map(delivery).collect()
}

/// Delivers executions that are locked.
pub fn deliver(session: &Session, execution_ids: Vec<Uuid>, now: Instant) {
    statement!(DELIVERIES_DONE = "queue/deliveries_done"(UUIDARRAYOID, TIMESTAMPTZOID, INT4OID));
    let rows = DELIVERIES_DONE.run(session, arguments![execution_ids, timestamp(now), delivery::payload_limit()]);
    delivery::deliver(&rows);
    counted::of_rows(&rows);
}
