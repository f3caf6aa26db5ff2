//! What a dispatcher wakes for.

use scheduler_core::Instant;

use crate::pg::convert::timestamp;
use crate::pg::record::Record;
use crate::pg::Session;
use crate::store::database_clock;
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

impl Deadlines {
    /// Behind which change to look next, where `after` is behind all because none waits (`ChangeWatch`). `None` saves each tick a
    /// statement.
    pub fn changes_after(&self, after: i64) -> Option<i64> {
        let is_known = after == i64::MAX && self.change.or(self.dropped).or(self.cancel).is_none();
        (!is_known).then_some(after)
    }
}

/// What was looked at already, and was left because others had it in hand, or for a later turn.
#[derive(Clone, Copy)]
pub struct Looked {
    /// Timers from here on,
    pub from: Instant,
    /// to here.
    pub until: Instant,
    /// Changes to this one. `None` where no change waits, and nothing that was dropped or is to be cancelled.
    pub changes: Option<i64>,
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
            TEXTOID,
            TEXTOID,
            TIMESTAMPTZOID,
            UUIDOID,
            TIMESTAMPTZOID,
            TIMESTAMPTZOID,
            UUIDOID,
            TIMESTAMPTZOID,
            TIMESTAMPTZOID
        )
    );
    let [deliveries, end] = delivery_queue::bounds();
    let now = database_clock::now();
    let timers = first_times::before_timers(session, now);
    let first = first_times::first_retry(session, now);
    let next = first_times::retries_behind(looked.retries, first);
    let leases = first_times::before_leases(session, now);
    let [from, until, next_retry, alerts, first_retry, leases, looked_retries] =
        [looked.from.max(timers), looked.until.max(timers), next.0, looked.alerts, first.0, leases, looked.retries]
            .map(timestamp);
    let arguments = arguments![
        from,
        until,
        deliveries,
        end,
        next_retry,
        next.1,
        looked_retries,
        first_retry,
        first.1,
        alerts,
        leases
    ];
    let changes = looked.changes.map_or(Deadlines::default(), |after| next_changes(session, after));
    NEXT_DEADLINES.run(session, arguments).first().map_or(changes, |row| Deadlines {
        fire: row.get_saturated("fire_at"),
        retry: row.get_saturated("retry_at"),
        retry_left_behind: row.get_required("retry_left_behind"),
        delivery: if row.get_required("delivery_waits") { Some(Instant::MIN) } else { None },
        stale: row.get_saturated("sweep_at"),
        left_behind: row.get_required("left_behind"),
        alert: row.get_saturated("alert_at"),
        ..changes
    })
}

/// When to go on with what edits, drops and cancels have left, behind the change `after`.
fn next_changes(session: &Session, after: i64) -> Deadlines {
    statement!(NEXT_CHANGES = "timer/next_changes"(INT8OID));
    let after = after.max(first_times::before_changes(session, database_clock::now()));
    NEXT_CHANGES.run(session, arguments![after]).first().map_or(Deadlines::default(), |row| {
        let waits = row.get_required("change_waits");
        Deadlines {
            change: if waits { Some(Instant::MIN) } else { row.get_saturated("change_retry_at") },
            more_changes: waits,
            dropped: row.get_saturated("dropped_at"),
            cancel: row.get_saturated("cancel_at"),
            ..Deadlines::default()
        }
    })
}
