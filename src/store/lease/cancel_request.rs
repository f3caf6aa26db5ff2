//! `sched.cancel_request`: executions that are to be cancelled and that another transaction has in hand. Mostly there is none
//! (`rare_rows::with`). Claims refuse them, heartbeats answer cancel, and a dispatcher carries the requests out (`dispatch::cancel`).

use pgrx::datum::Uuid;
use pgrx::pg_sys::{self, Oid};
use scheduler_core::Instant;

use crate::heap::{Condition, Index};
use crate::pg::convert::timestamp;
use crate::pg::record::Record;
use crate::pg::session::List;
use crate::pg::Session;
use crate::store::{low_water_marks, rare_rows};
use crate::{arguments, statement};

/// The requests, as they are now.
pub struct Requested<'i, 't>(&'i mut Index<'t>);

/// Runs `body` with what there is of them.
pub fn with<R>(schema: Oid, now: Instant, body: impl FnOnce(Option<&mut Requested>) -> R) -> R {
    rare_rows::with(schema, c"cancel_request", c"cancel_request_execution_id", now, |index| {
        body(index.map(Requested).as_mut())
    })
}

/// Whether an execution is to be cancelled.
pub fn is_for(schema: Oid, execution_id: Uuid, now: Instant) -> bool {
    with(schema, now, |requested| requested.is_some_and(|requested| requested.has(execution_id)))
}

impl Requested<'_, '_> {
    /// Whether this is one.
    pub fn has(&mut self, execution_id: Uuid) -> bool {
        self.0.find(&[Condition::equal(pg_sys::F_UUID_EQ, execution_id)])
    }
}

/// A request that is to be carried out.
pub struct Request {
    /// Which; there may be several for one execution.
    pub id: Uuid,
    /// The execution.
    pub execution_id: Uuid,
}

/// Has an execution cancelled when the transaction that has it in hand has ended.
pub fn add(session: &Session, execution_id: Uuid) {
    statement!(CANCEL_REQUEST_ADD = "lease/cancel_request_add"(UUIDOID));
    CANCEL_REQUEST_ADD.run(session, arguments![execution_id]);
    low_water_marks::added_cancel_request();
}

/// Locks up to `limit` requests whose turn it is.
pub fn due(session: &Session, now: Instant, limit: i64) -> Vec<Request> {
    statement!(CANCEL_REQUESTS_DUE = "lease/cancel_requests_due"(TIMESTAMPTZOID, INT8OID));
    let rows = CANCEL_REQUESTS_DUE.run(session, arguments![timestamp(now), limit]);
    let request = |row: crate::pg::session::Row| Request {
        id: row.get_required("request_id"),
        execution_id: row.get_required("execution_id"),
    };
    rows.iter().map(request).collect()
}

/// Has these tried again a little later.
pub fn keep(session: &Session, request_ids: Vec<Uuid>, now: Instant) {
    statement!(CANCEL_REQUESTS_KEEP = "lease/cancel_requests_keep"(UUIDARRAYOID, TIMESTAMPTZOID));
    if !request_ids.is_empty() {
        CANCEL_REQUESTS_KEEP.run(session, arguments![List(request_ids), timestamp(now)]);
    }
}

/// These are done.
pub fn forget(session: &Session, request_ids: Vec<Uuid>) {
    statement!(CANCEL_REQUESTS_FORGET = "lease/cancel_requests_forget"(UUIDARRAYOID));
    if !request_ids.is_empty() {
        CANCEL_REQUESTS_FORGET.run(session, arguments![List(request_ids)]);
    }
}
