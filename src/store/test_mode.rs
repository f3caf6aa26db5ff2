//! Test mode: the row that says so, and what `sched.reset` takes away.

use pgrx::datum::{Interval, Uuid};
use pgrx::pg_sys::Oid;
use scheduler_core::Instant;

use crate::pg::convert::timestamp;
use crate::pg::record::Record;
use crate::pg::Session;
use crate::store::{identity, low_water_marks};
use crate::{arguments, statement};

/// What keeps a database from test mode.
pub struct Obstacle {
    /// It holds more executions than was asked.
    pub is_large: bool,
    /// A dispatcher has made executions for this role, which does not own the database.
    pub other_owner: Option<Oid>,
}

pub fn obstacle(session: &Session, most: i64) -> Obstacle {
    statement!(TEST_MODE_OBSTACLE = "test_mode/obstacle"(INT8OID));
    TEST_MODE_OBSTACLE.run(session, arguments![most]).first().map_or(
        Obstacle { is_large: false, other_owner: None },
        |row| Obstacle { is_large: row.get_required("is_large"), other_owner: row.get("other_owner") },
    )
}

pub fn begin(session: &Session) {
    statement!(TEST_MODE_BEGIN = "test_mode/begin"());
    TEST_MODE_BEGIN.run(session, arguments![]);
}

/// Whether all has been reset that came to be in test mode.
pub fn may_end(session: &Session) -> bool {
    statement!(TEST_MODE_MAY_END = "test_mode/may_end"());
    TEST_MODE_MAY_END.run(session, arguments![]).first().is_some_and(|row| row.get_required("may_end"))
}

pub fn end(session: &Session) {
    statement!(TEST_MODE_END = "test_mode/end"());
    TEST_MODE_END.run(session, arguments![]);
}

/// How long an interval is from `time` on, in microseconds.
pub fn length(session: &Session, time: Instant, interval: Interval) -> i64 {
    statement!(TEST_MODE_LENGTH = "test_mode/length"(TIMESTAMPTZOID, INTERVALOID));
    TEST_MODE_LENGTH
        .run(session, arguments![timestamp(time), interval])
        .first()
        .map_or(0, |row| row.get_required("micros"))
}

pub fn advance(session: &Session, micros: i64) {
    statement!(TEST_MODE_ADVANCE = "test_mode/advance"(INT8OID));
    TEST_MODE_ADVANCE.run(session, arguments![micros]);
}

/// Deletes all that has become of definitions, and these too where they are not to stay; schedules begin anew at `now`.
pub fn reset(session: &Session, keeps_definitions: bool, now: Instant) {
    statement!(TEST_MODE_RESET_EXECUTIONS = "test_mode/reset_executions"());
    statement!(TEST_MODE_RESET_DEFINITIONS = "test_mode/reset_definitions"());
    statement!(TEST_MODE_RESET_PAST = "test_mode/reset_past"());
    TEST_MODE_RESET_EXECUTIONS.run(session, arguments![]);
    if keeps_definitions {
        identity::begin_anew(session, now);
    } else {
        TEST_MODE_RESET_DEFINITIONS.run(session, arguments![]);
    }
    TEST_MODE_RESET_PAST.run(session, arguments![]);
    low_water_marks::forget_all();
}

/// When something comes due next, after one time and no later than another.
pub fn next_moment(session: &Session, after: Instant, until: Instant) -> Option<Instant> {
    statement!(NEXT_MOMENT = "timer/next_moment"(TIMESTAMPTZOID, TIMESTAMPTZOID));
    NEXT_MOMENT.run(session, arguments![timestamp(after), timestamp(until)]).first()?.get_saturated("due_at")
}

/// Has other sessions wait that run SQL jobs or move the clock; the greatest fence that was given.
pub fn lock(session: &Session) -> i64 {
    statement!(TEST_MODE_LOCK = "test_mode/lock"());
    TEST_MODE_LOCK.run(session, arguments![]).first().map_or(0, |row| row.get_required("fence"))
}

/// The execution that a runner has begun since a fence, and what became of it.
pub fn run_since(session: &Session, fence: i64) -> Option<(Uuid, String)> {
    statement!(TEST_MODE_RUN_SINCE = "test_mode/run_since"(INT8OID));
    let found = TEST_MODE_RUN_SINCE.run(session, arguments![fence]);
    found.first().map(|row| (row.get_required("id"), row.get_required("status")))
}
