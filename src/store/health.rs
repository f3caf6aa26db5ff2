//! What tables and catalogs say of the state of the scheduler: index probes, each of a bounded cost, and nothing that counts history.

use pgrx::pg_sys::Oid;
use scheduler_core::job::DEFAULT_QUEUE;
use scheduler_core::Instant;

use crate::pg::convert::timestamp;
use crate::pg::record::Record;
use crate::pg::session::List;
use crate::pg::Session;
use crate::store::database_clock;
use crate::store::fast_path;
use crate::store::queue::queue_heads;
use crate::store::timer::first_times;
use crate::{arguments, statement};

/// What more than this is counted as.
pub const MOST_COUNTED: i64 = 1000;
/// How many changed schedules are looked at.
const MOST_CHANGED: i64 = 2000;
/// How many queues are looked at.
const MOST_QUEUES: i32 = 1000;
/// How many executions that wait, wait for a time, and run are asked for their jobs, of each.
const MOST_EXECUTIONS: i64 = 50;
/// From so many dead rows on a table lacks a vacuum.
const MOST_DEAD_ROWS: i64 = 250_000;

/// What is due.
pub struct Due {
    /// When the oldest timer was to fire that has not.
    pub oldest: Option<Instant>,
    /// How many are due, up to `MOST_COUNTED`.
    pub count: i64,
    /// Schedules with a change that nobody has applied, the first of them.
    pub changed: Vec<i64>,
}

/// What is due at `now` and was not fired.
pub fn due(session: &Session, now: Instant) -> Due {
    statement!(DISPATCH = "health/dispatch"(TIMESTAMPTZOID, INT8OID, INT8OID, TIMESTAMPTZOID, INT8OID));
    let none_before = timestamp(first_times::before_timers(session, now));
    let changes = first_times::before_changes(session, now);
    let rows = DISPATCH.run(session, arguments![timestamp(now), MOST_COUNTED, MOST_CHANGED, none_before, changes]);
    rows.first().map_or(Due { oldest: None, count: 0, changed: Vec::new() }, |row| Due {
        oldest: row.get_saturated("oldest"),
        count: row.get_required("due"),
        changed: row.get_required("changed"),
    })
}

/// Whether a copy holds schedules, or executions that wait or run.
pub fn copy_has_work(session: &Session) -> bool {
    statement!(COPY = "health/copy"());
    COPY.run(session, arguments![]).first().is_some_and(|row| row.get_required("has_work"))
}

/// Each queue in which something can be claimed, and since when its first entry can: the one that waits longest first.
pub fn queues(session: &Session, now: Instant) -> Vec<(String, Option<Instant>)> {
    statement!(QUEUES = "health/queues"(INT4OID));
    let most = usize::try_from(MOST_QUEUES).unwrap_or(usize::MAX);
    if let Some(found) = fast_path::open_in(session, |schema| queue_heads::first_of_each(schema, most, now)) {
        return found;
    }
    let rows = QUEUES.run(session, arguments![MOST_QUEUES]);
    rows.iter().map(|row| (row.get_required("queue"), row.get_saturated("since"))).collect()
}

/// Names of jobs that nobody has defined and of which something waits or runs, as far as the first executions show; `reads_all` says that the
/// reader may know every name.
pub fn undefined_jobs(session: &Session, reader: Oid, reads_all: bool, now: Instant) -> Vec<String> {
    statement!(
        UNDEFINED_JOBS =
            "health/undefined_jobs"(INT8OID, OIDOID, BOOLOID, UUIDARRAYOID, TIMESTAMPTZOID, UUIDOID, TIMESTAMPTZOID)
    );
    let most = usize::try_from(MOST_EXECUTIONS).unwrap_or(usize::MAX);
    let waiting = fast_path::open_in(session, |schema| queue_heads::first_in(schema, DEFAULT_QUEUE, most, now));
    let ((time, id), leases) = (first_times::first_retry(session, now), first_times::before_leases(session, now));
    let (retries, leases, waiting) = (timestamp(time), timestamp(leases), waiting.map(List));
    let arguments = arguments![MOST_EXECUTIONS, reader, reads_all, waiting, retries, id, leases];
    let rows = UNDEFINED_JOBS.run(session, arguments);
    rows.first().and_then(|row| row.get("names")).unwrap_or_default()
}

/// How many leases ran out before a time, up to `MOST_COUNTED`, and when the first did.
pub fn stale_leases(session: &Session, before: Instant) -> (i64, Option<Instant>) {
    statement!(LEASES = "health/leases"(TIMESTAMPTZOID, INT8OID, TIMESTAMPTZOID));
    let none_before = timestamp(first_times::before_leases(session, database_clock::now()));
    let rows = LEASES.run(session, arguments![timestamp(before), MOST_COUNTED, none_before]);
    rows.first().map_or((0, None), |row| (row.get_required("count"), row.get_saturated("first")))
}

/// Schedules that need somebody.
pub struct Troubled {
    /// How many are parked, of `MOST_COUNTED` that are looked at.
    pub parked: i64,
    /// How many fail.
    pub failing: i64,
    /// Since when.
    pub since: Option<Instant>,
    /// The worst that the reader may read about.
    pub worst: Option<String>,
    /// Those that are parked because the owner of their job was dropped, as far as the reader may read about them; the first six.
    pub ownerless: Vec<String>,
}

/// Schedules that are parked or fail; `reads_all` says that the reader may know every name.
pub fn troubled_schedules(session: &Session, reader: Oid, reads_all: bool) -> Troubled {
    statement!(SCHEDULES = "health/schedules"(INT8OID, OIDOID, BOOLOID));
    let rows = SCHEDULES.run(session, arguments![MOST_COUNTED, reader, reads_all]);
    rows.first().map_or(Troubled { parked: 0, failing: 0, since: None, worst: None, ownerless: Vec::new() }, |row| {
        Troubled {
            parked: row.get_required("parked"),
            failing: row.get_required("failing"),
            since: row.get_saturated("since"),
            worst: row.get("worst"),
            ownerless: row.get_required("ownerless"),
        }
    })
}

/// Schedules whose payload is longer than a new one may be.
pub struct LongPayloads {
    /// How many of `MOST_COUNTED`.
    pub count: i64,
    /// Since when the oldest is as it is.
    pub since: Option<Instant>,
    /// Those that the reader may read about.
    pub names: Vec<String>,
}

/// The same; `reads_all` says that the reader may know every name.
pub fn long_payloads(session: &Session, reader: Oid, reads_all: bool) -> LongPayloads {
    statement!(LONG_PAYLOADS = "health/long_payloads"(INT8OID, OIDOID, BOOLOID));
    let rows = LONG_PAYLOADS.run(session, arguments![MOST_COUNTED, reader, reads_all]);
    rows.first().map_or(LongPayloads { count: 0, since: None, names: Vec::new() }, |row| LongPayloads {
        count: row.get_required("count"),
        since: row.get_saturated("since"),
        names: row.get("names").unwrap_or_default(),
    })
}

/// Open alerts of one kind that nobody has acknowledged.
pub struct OpenAlerts {
    /// The kind.
    pub kind: String,
    /// How many of `MOST_COUNTED`.
    pub count: i64,
    /// Since when the oldest is so.
    pub since: Option<Instant>,
    /// The schedule of the oldest of all kinds that the reader may read about.
    pub worst: Option<String>,
}

/// Those that no timer tells of, by their kinds; `reads_all` says that the reader may know every name.
pub fn open_alerts(session: &Session, reader: Oid, reads_all: bool) -> Vec<OpenAlerts> {
    statement!(ALERTS = "health/alerts"(INT8OID, OIDOID, BOOLOID));
    let rows = ALERTS.run(session, arguments![MOST_COUNTED, reader, reads_all]);
    rows.iter()
        .map(|row| OpenAlerts {
            kind: row.get_required("kind"),
            count: row.get_required("count"),
            since: row.get_saturated("since"),
            worst: row.get("worst"),
        })
        .collect()
}

/// What the server says.
pub struct ServerState {
    /// Whether the server vacuums at all.
    pub autovacuum: bool,
    /// How many background workers there can be.
    pub worker_slots: i64,
    /// How many there are.
    pub workers: i64,
    /// Our tables that are not to be vacuumed.
    pub unvacuumed: Option<String>,
    /// Our tables of which most are dead rows.
    pub bloated: Option<String>,
    /// How many transaction ids old the oldest is that a process of ours keeps.
    pub held_ids: i64,
    /// Which process that is, and since when.
    pub holder: Option<(i32, Instant)>,
}

/// What the server says of itself and of our tables.
pub fn server(session: &Session) -> Option<ServerState> {
    statement!(SERVER = "health/server"(INT8OID));
    let rows = SERVER.run(session, arguments![MOST_DEAD_ROWS]);
    rows.first().map(|row| ServerState {
        autovacuum: row.get_required("autovacuum"),
        worker_slots: i64::from(row.get_required::<i32>("worker_slots")),
        workers: row.get_required("workers"),
        unvacuumed: row.get("unvacuumed"),
        bloated: row.get("bloated"),
        held_ids: row.get("held_ids").unwrap_or(0),
        holder: row.get("holder").zip(row.get_saturated("holds_since")),
    })
}
