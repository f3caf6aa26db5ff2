//! Jobs of kind notify where the server's queue of notifications is full, which tests pretend: to fill it takes gigabytes. What jobs of
//! kind log write at a commit is in cluster/tests/logs.rs.

use pgrx::prelude::*;

#[pg_schema]
#[allow(clippy::unwrap_used, reason = "test code")]
mod tests {
    use pgrx::prelude::*;

    use crate::store::queue::notify::pretend;
    use crate::test_support::{alone, armed, attempt, check, created, dispatch, refused, run, sql, state, time_passes};

    const TELLS: &str = "SELECT sched.define_job('tells', 'notify', 'a_channel')";
    /// The share of the queue that 8,590 bytes are, as long as version 17 and later are not told otherwise.
    const LITTLE: f64 = 1e-6;

    #[pg_test]
    fn a_full_queue_puts_off_the_schedules_that_notify_and_no_other() {
        alone();
        run(&[TELLS, "SELECT sched.define_job('logs', 'log')"]);
        created("n/pull", "every 1 hour", "");
        run(&["SELECT sched.create_schedule('n/tells', 'every 1 hour', 'tells'), sched.create_schedule('n/logs', 'every 1 hour', 'logs')"]);
        dispatch(0);
        time_passes("61 minutes");
        pretend(Some(0.93));
        dispatch(2);
        assert_eq!([armed("n/pull"), armed("n/logs"), state("n/tells")], ["t", "t", "failing"]);
        check(
            "SELECT error_count, last_error, next_plan_time < now(), next_fire_at > clock_timestamp() FROM sched.schedules WHERE schedule_name = 'n/tells'",
            "1|the server's queue of notifications is 93 % full|t|t",
        );
        dispatch(0);
        time_passes("10 seconds");
        dispatch(0);
        check("SELECT error_count FROM sched.schedules WHERE schedule_name = 'n/tells'", "2");
        // Nothing is lost: the plan fires once there is room.
        pretend(Some(0.5));
        time_passes("10 seconds");
        dispatch(1);
        assert_eq!(armed("n/tells"), "t");
        check("SELECT status, attempt, result FROM sched.execution WHERE schedule_name = 'n/tells'", "SUCCESS|1|{}");
        pretend(None);
    }

    #[pg_test]
    fn a_full_queue_is_an_error_of_who_enqueues() {
        alone();
        run(&[
            TELLS,
            "SELECT sched.create_schedule('n/by hand', '0 0 * * *', 'tells')",
            "SELECT sched.define_job('pulls')",
        ]);
        let calls = [
            "enqueue('tells')",
            "enqueue('tells', scope_id => 'a')",
            "enqueue_many('tells', '{1,2}')",
            "enqueue_many('tells', '{1,2}', scope_ids => '{a,b}')",
            "fire_now('n/by hand')",
            "backfill('n/by hand', '2026-01-01', '2026-01-05')",
        ];
        pretend(Some(0.9));
        for call in calls {
            let refusal = refused(&format!("SELECT sched.{call}"), "53400");
            assert_eq!(refusal.message, "the server's queue of notifications is 90 % full", "{call}");
        }
        // A hint that work has come is left out, and the work is not lost for it.
        run(&["SELECT sched.enqueue('pulls')"]);
        pretend(Some(0.89));
        for call in calls {
            run(&[&format!("SELECT sched.{call}")]);
        }
        pretend(None);
    }

    /// One transaction adds no more than the queue has room for, all its calls together.
    #[pg_test]
    fn what_a_transaction_notifies_is_added_up() {
        alone();
        run(&[TELLS]);
        let enqueue = "sched.enqueue('tells', to_jsonb(repeat('x', 3000)))";
        pretend(Some(0.9 - LITTLE));
        // What is rolled back does not count.
        let undone = attempt(&format!("SELECT 1 / (CASE WHEN {enqueue} IS NULL THEN 1 ELSE 0 END)")).unwrap();
        assert_eq!(undone.sqlstate, "22012");
        run(&[&format!("SELECT {enqueue}")]);
        let refusal = refused(&format!("SELECT {enqueue}"), "53400");
        assert_eq!(refusal.message, "the server's queue of notifications is 90 % full and has no room for 1 % more");
        pretend(None);
        // All runs of a schedule say the same, of which Postgres sends one.
        run(&["SELECT sched.create_schedule('n/fast', 'every 1 minute', 'tells', payload => to_jsonb(repeat('x', 3000)), catch_up => 'every_plan')"]);
        dispatch(0);
        time_passes("61 minutes");
        let pending: i64 = sql("SELECT count(*) FROM sched.ledger").parse().unwrap();
        pretend(Some(0.9 - 2.0 * LITTLE));
        dispatch(61);
        pretend(None);
        check("SELECT count(*) FROM sched.ledger WHERE status = 'SUCCESS'", &(pending + 61).to_string());
    }
}
