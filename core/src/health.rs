//! How bad a state of the scheduler is. What is so is found elsewhere; from here on it is `ok`, a `warning` or `critical`.

use crate::keyword::keywords;

keywords! {
    /// What is looked at, in the order in which it is shown.
    pub enum Component {
        /// That the database is in test mode; not there otherwise.
        TestMode = "test_mode",
        /// The process that starts dispatchers.
        Launcher = "launcher",
        /// The process that fires what is due in this database.
        Dispatcher = "dispatcher",
        /// The oldest timer that is due and has not fired.
        Dispatch = "dispatch",
        /// The oldest execution that could be claimed.
        Queues = "queues",
        /// Leases that ran out, of runs that nobody has ended.
        Leases = "leases",
        /// SQL jobs that wait for a process.
        Runners = "runners",
        /// Schedules that are parked or fail, and open alerts.
        Schedules = "schedules",
        /// Whether the database is a copy.
        Home = "home",
        /// Whether library and objects are of one version.
        Versions = "versions",
        /// The server's queue of notifications.
        NotifyQueue = "notify_queue",
        /// The server's slots for background workers.
        WorkerSlots = "worker_slots",
        /// Whether our tables are vacuumed.
        Autovacuum = "autovacuum",
        /// For how long our own transactions keep others' rows from being vacuumed.
        Wraparound = "wraparound",
    }
}

keywords! {
    /// How bad it is.
    #[derive(PartialOrd, Ord)]
    pub enum Severity {
        /// Nothing is to be done.
        Ok = "ok",
        /// Somebody should look.
        Warning = "warning",
        /// Plan times are missed, or nothing works.
        Critical = "critical",
    }
}

const MICROS_PER_SECOND: i64 = 1_000_000;
/// An execution that can be claimed waits no longer where somebody claims, in microseconds.
pub const LONGEST_WAIT: i64 = 300 * MICROS_PER_SECOND;
/// A SQL job that waits for longer is short of processes, in microseconds.
pub const LONGEST_WAIT_FOR_RUNNER: i64 = 60 * MICROS_PER_SECOND;

/// A schedule that lies no longer ahead of a clock that was set back is no matter, in microseconds.
pub const LONGEST_SILENCE: i64 = 60 * MICROS_PER_SECOND;

const fn above(value: i64, warning: i64, critical: i64) -> Severity {
    if value > critical {
        Severity::Critical
    } else if value > warning {
        Severity::Warning
    } else {
        Severity::Ok
    }
}

/// For how long a timer has been due and unfired, in microseconds.
#[must_use]
pub const fn of_lateness(micros: i64) -> Severity {
    above(micros, MICROS_PER_SECOND / 2, 2 * MICROS_PER_SECOND)
}

/// How full the queue of notifications is, of 1.
#[must_use]
pub fn of_notify_queue(share: f64) -> Severity {
    above((share * 1000.0) as i64, 499, 899)
}

/// How many transaction ids old what we hold back is.
#[must_use]
pub const fn of_held_ids(ids: i64) -> Severity {
    above(ids, 100_000_000, 1_000_000_000)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::Keyword;

    #[test]
    fn limits_are_passed_not_met() {
        let second = MICROS_PER_SECOND;
        let rows = [
            (of_lateness(-second), Severity::Ok),
            (of_lateness(second / 2), Severity::Ok),
            (of_lateness(second / 2 + 1), Severity::Warning),
            (of_lateness(2 * second), Severity::Warning),
            (of_lateness(2 * second + 1), Severity::Critical),
            (of_notify_queue(0.499), Severity::Ok),
            (of_notify_queue(0.5), Severity::Warning),
            (of_notify_queue(0.899), Severity::Warning),
            (of_notify_queue(0.9), Severity::Critical),
            (of_held_ids(100_000_000), Severity::Ok),
            (of_held_ids(100_000_001), Severity::Warning),
            (of_held_ids(1_000_000_001), Severity::Critical),
        ];
        for (row, (found, expected)) in rows.into_iter().enumerate() {
            assert_eq!(found, expected, "row {row}");
        }
        assert!(Severity::Ok < Severity::Warning && Severity::Warning < Severity::Critical);
        assert_eq!((Component::ALL.len(), Severity::ALL.len()), (14, 3));
    }
}
