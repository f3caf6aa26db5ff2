//! What a dispatcher wakes for.

use scheduler_core::Instant;

use crate::pg::convert::{self, timestamp};
use crate::pg::record::Record;
use crate::pg::Session;
use crate::store::queue::delivery_queue;
use crate::store::timer::first_times;
use crate::{arguments, statement};

/// When there is something to do.
#[derive(Clone, Copy, Default)]
pub struct Deadlines {
    /// The first timer is due.
    pub fire: Option<Instant>,
    /// The first of what waits for a time is due, of those that nobody has in hand.
    pub retry: Option<Instant>,
    /// Something is due that somebody had in hand.
    pub retry_left_behind: bool,
    /// Something that a dispatcher delivers has become ready; the beginning of time then.
    pub delivery: Option<Instant>,
    /// The first lease may be stale.
    pub stale: Option<Instant>,
    /// A change can be applied; the beginning of time where one is waiting.
    pub change: Option<Instant>,
    /// A change is waiting behind those that were looked at.
    pub more_changes: bool,
    /// A timer is due that was passed over.
    pub left_behind: bool,
    /// A schedule is to be looked at that may call for alerts.
    pub alert: Option<Instant>,
    /// A dropped schedule is to be looked at of which somebody had something in hand.
    pub dropped: Option<Instant>,
    /// An execution is to be cancelled that somebody had in hand.
    pub cancel: Option<Instant>,
}

/// What was looked at already, and was left because others had it in hand, or for a later turn.
#[derive(Clone, Copy)]
pub struct Looked {
    /// Timers from here on,
    pub from: Instant,
    /// to here.
    pub until: Instant,
    /// Changes to this one.
    pub changes: i64,
    /// What waits for a time to this one.
    pub retries: Instant,
    /// Planned looks for alerts to this one.
    pub alerts: Instant,
}

/// When each step has something to do next, as far as is known, past what was looked at; and whether of that something is still due.
pub fn next(session: &Session, looked: Looked) -> Deadlines {
    statement!(
        NEXT_DEADLINES = "timer/next_deadlines"(
            TIMESTAMPTZOID,
            TIMESTAMPTZOID,
            INT8OID,
            TEXTOID,
            TEXTOID,
            TIMESTAMPTZOID,
            TIMESTAMPTZOID,
            TIMESTAMPTZOID,
            TIMESTAMPTZOID
        )
    );
    let [deliveries, end] = delivery_queue::bounds();
    let now = convert::now();
    let timers = first_times::before_timers(session, now);
    let (retries, leases) = (first_times::before_retries(session, now), first_times::before_leases(session, now));
    let [from, until, looked_retries, alerts, retries, leases] =
        [looked.from.max(timers), looked.until.max(timers), looked.retries, looked.alerts, retries, leases]
            .map(timestamp);
    let arguments = arguments![from, until, looked.changes, deliveries, end, looked_retries, alerts, retries, leases];
    NEXT_DEADLINES.run(session, arguments).first().map_or(Deadlines::default(), |row| Deadlines {
        fire: row.get_saturated("fire_at"),
        retry: row.get_saturated("retry_at"),
        retry_left_behind: row.get_required("retry_left_behind"),
        delivery: if row.get_required("delivery_waits") { Some(Instant::MIN) } else { None },
        stale: row.get_saturated("sweep_at"),
        change: if row.get_required("change_waits") {
            Some(Instant::MIN)
        } else {
            row.get_saturated("change_retry_at")
        },
        more_changes: row.get_required("change_waits"),
        left_behind: row.get_required("left_behind"),
        alert: row.get_saturated("alert_at"),
        dropped: row.get_saturated("dropped_at"),
        cancel: row.get_saturated("cancel_at"),
    })
}
