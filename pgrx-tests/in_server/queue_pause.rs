//! Nothing of a paused queue is claimed, by whatever way; what goes on goes on; and who may pause it.

use pgrx::prelude::*;

#[pg_schema]
#[allow(clippy::unwrap_used, reason = "test code")]
mod tests {
    use pgrx::prelude::*;

    use crate::pg::{convert, session};
    use crate::store::runner;
    use crate::test_support::{attempt, check, dispatch, refused, run, set_fast_path, sql, time_passes};

    fn both_ways(body: impl Fn(&str)) {
        for fast_path in [true, false] {
            set_fast_path(fast_path);
            body(if fast_path { "f" } else { "s" });
        }
        set_fast_path(true);
    }

    #[pg_test]
    fn nothing_of_a_paused_queue_is_claimed() {
        both_ways(|way| {
            let queue = format!("pq/{way}");
            let claim = format!("SELECT count(*) FROM sched.claim('{queue}', 9)");
            // By the scope, for time passes.
            let outcome = |scope: &str| {
                sql(&format!(
                    "SELECT outcome FROM sched.try_claim('{queue}', COALESCE((SELECT plan_time FROM sched.ledger WHERE job_name = '{queue}' AND scope_id = '{scope}'), '2026-01-01'), 'global', '{scope}')"
                ))
            };
            run(&[
                &format!("SELECT sched.define_job('{queue}', queue => '{queue}', max_attempts => 3, retry_backoff => '{{1 hour}}')"),
                &format!("SELECT sched.try_claim('{queue}', '2026-01-01', 'global', s, stale_timeout => '1 minute') FROM unnest(array['failed', 'stale']) AS s"),
                &format!("SELECT sched.finish_failure(id, lease_token) FROM sched.execution WHERE job_name = '{queue}' AND scope_id = 'failed'"),
            ]);
            time_passes("2 hours");
            run(&[
                &format!("SELECT sched.try_claim('{queue}', '2026-01-01', 'global', 'running')"),
                &format!("SELECT sched.enqueue('{queue}', '{{}}', '2026-01-01', 'global', s) FROM unnest(array['pending', 'pending too']) AS s"),
                &format!("SELECT sched.pause_queue('{queue}')"),
                &format!("SELECT sched.pause_queue('{queue}')"),
            ]);
            let before = sql("SELECT count(*) FROM sched.ledger");
            for scope in ["failed", "stale", "running", "pending", "new"] {
                assert_eq!(outcome(scope), "conflicted", "{scope}");
            }
            check("SELECT count(*) FROM sched.ledger", &before);
            check(&claim, "0");
            // What goes on goes on.
            let running = format!("sched.execution WHERE job_name = '{queue}' AND scope_id = 'running'");
            check(&format!("SELECT sched.heartbeat(id, lease_token) FROM {running}"), "ok");
            run(&[&format!("SELECT sched.finish_success(id, lease_token) FROM {running}")]);
            run(&["SELECT sched.dispatch_due()"]);
            check(&claim, "0");
            run(&[&format!("SELECT sched.resume_queue('{queue}')"), &format!("SELECT sched.resume_queue('{queue}')")]);
            assert_eq!(outcome("stale"), "stole");
            assert_eq!(outcome("failed"), "stole");
            assert_eq!(outcome("pending"), "won");
            assert_eq!(outcome("new"), "won");
            check(&claim, "1");
        });
    }

    /// A job that was never defined waits in the queue `default`; and the queue of an execution counts, not the one that its job has by now.
    #[pg_test]
    fn the_queue_of_the_execution_counts() {
        both_ways(|way| {
            let job = format!("pq/moved {way}");
            run(&[
                "SELECT sched.pause_queue('default')",
                &format!("SELECT sched.define_job('{job}', queue => '{job} a')"),
                &format!("SELECT sched.enqueue('{job}', '{{}}', '2026-01-01', 'global', 'global')"),
                &format!("SELECT sched.define_job('{job}', queue => '{job} b')"),
                &format!("SELECT sched.pause_queue('{job} b')"),
            ]);
            check(&format!("SELECT outcome FROM sched.try_claim('pq/undefined {way}', '2026-01-01')"), "conflicted");
            check(&format!("SELECT outcome FROM sched.try_claim('{job}', '2026-01-02')"), "conflicted");
            check(&format!("SELECT outcome FROM sched.try_claim('{job}', '2026-01-01')"), "won");
            run(&["SELECT sched.resume_queue('default')"]);
            check(&format!("SELECT outcome FROM sched.try_claim('pq/undefined {way}', '2026-01-01')"), "won");
        });
    }

    #[pg_test]
    fn a_pause_that_was_taken_back_is_none() {
        both_ways(|way| {
            let queue = format!("pq/back {way}");
            run(&[
                &format!("SELECT sched.define_job('{queue}', queue => '{queue}')"),
                &format!("SELECT sched.enqueue('{queue}')"),
            ]);
            let failed = attempt(&format!(
                "DO $$ BEGIN PERFORM sched.pause_queue('{queue}'); IF (SELECT count(*) FROM sched.claim('{queue}')) = 0 THEN RAISE 'as it should be'; END IF; END $$"
            ));
            assert_eq!(failed.unwrap().message, "as it should be");
            check(&format!("SELECT count(*) FROM sched.claim('{queue}')"), "1");
        });
    }

    /// Neither the dispatcher nor a runner sees work in a queue that is paused. Also of queues that a process knows by now, and of new ones between
    /// these.
    #[pg_test]
    fn runners_take_the_first_of_their_queues_that_are_not_paused() {
        let me = pg_sys::Oid::from(sql("SELECT current_user::regrole::oid").parse::<u32>().unwrap());
        both_ways(|way| {
            let name = |queue: &str| format!("pq/{way} {queue}");
            let queues = || -> String {
                let names = session(|session| runner::queues_waiting(session, me, convert::now()));
                let ours: Vec<_> =
                    names.iter().filter_map(|name| name[72..].strip_prefix(&format!("pq/{way} "))).collect();
                ours.join(" ")
            };
            let waiting = || -> usize {
                let owners = session(|session| runner::owners_waiting(session, 100));
                owners.iter().filter(|waiting| waiting.owner == me).map(|waiting| waiting.count).sum()
            };
            let add = |queue: &str, priority: i32| {
                let name = name(queue);
                run(&[
                    &format!("SELECT sched.define_job('{name}', 'sql', 'SELECT 1', '{name}', priority => {priority})"),
                    &format!("SELECT sched.enqueue_many('{name}', '{{1,2}}')"),
                ]);
            };
            let before = waiting();
            ["b", "d", "f", "h"].into_iter().zip([0, 2, 1, 1]).for_each(|(queue, priority)| add(queue, priority));
            for _ in 0..2 {
                assert_eq!(queues(), "d f h b");
            }
            assert_eq!(waiting(), before + 8);
            run(&[&format!("SELECT sched.pause_queue('{}'), sched.pause_queue('{}')", name("d"), name("h"))]);
            assert_eq!(queues(), "f b");
            assert_eq!(waiting(), before + 4);
            assert_eq!(session(|session| runner::lock_waiting(session, me, 1000).len()), before + 4);
            run(&[&format!("SELECT sched.resume_queue('{}')", name("h"))]);
            assert_eq!(queues(), "f h b");
            ["a", "c", "g", "z"].into_iter().zip([5, 3, 4, -1]).for_each(|(queue, priority)| add(queue, priority));
            assert_eq!(queues(), "a g c f h b z");
            assert_eq!(queues(), "a g c f h b z");
            run(&[&format!(
                "SELECT sched.cancel(id) FROM sched.execution WHERE job_name IN ('{}', '{}')",
                name("a"),
                name("f")
            )]);
            assert_eq!(queues(), "g c h b z");
            add("f", 9);
            assert_eq!(queues(), "f g c h b z");
            let few = session(|session| runner::owners_waiting(session, 3));
            assert_eq!(few.iter().find(|waiting| waiting.owner == me).unwrap().count, 3);
            run(&[&format!("SELECT sched.cancel(id) FROM sched.execution WHERE job_name LIKE 'pq/{way} %'")]);
            assert_eq!(queues(), "");
        });
    }

    #[pg_test]
    fn fires_go_on_into_a_paused_queue() {
        both_ways(|way| {
            let name = format!("pq/fires {way}");
            run(&[
                &format!("SELECT sched.define_job('{name}', queue => '{name}')"),
                &format!("SELECT sched.define_job('{name} notify', 'notify', 'pq', queue => '{name}')"),
                &format!("SELECT sched.create_schedule('{name}', '0 * * * *', '{name}')"),
                &format!("SELECT sched.create_schedule('{name} notify', '0 * * * *', '{name} notify')"),
                "SELECT sched.dispatch_due()",
                &format!("SELECT sched.pause_queue('{name}')"),
            ]);
            time_passes("1 hour");
            dispatch(2);
            check(
                &format!("SELECT job_name, status FROM sched.execution WHERE job_name LIKE '{name}%' ORDER BY 1"),
                &format!("{name}|PENDING\n{name} notify|SUCCESS"),
            );
            check(&format!("SELECT count(*) FROM sched.claim('{name}', 9)"), "0");
            run(&[
                &format!("SELECT sched.resume_queue('{name}')"),
                &format!("SELECT sched.drop_schedule(s) FROM unnest(array['{name}', '{name} notify']) AS s"),
            ]);
            check(&format!("SELECT count(*) FROM sched.claim('{name}', 9)"), "1");
        });
    }

    #[pg_test]
    fn who_may_pause_a_queue() {
        for role in ["pq_one", "pq_two"] {
            run(&[&format!("CREATE ROLE {role}"), &format!("SELECT sched.grant_use('{role}')")]);
        }
        attempt("SELECT 1");
        let as_role = |role: &str, statement: &str| {
            run(&[&format!("SET LOCAL ROLE {role}")]);
            let refusal = attempt(statement);
            run(&["RESET ROLE"]);
            refusal.map_or_else(String::new, |refusal| refusal.sqlstate)
        };
        let pause = "SELECT sched.pause_queue('pq/own')";
        let resume = "SELECT sched.resume_queue('pq/own')";
        // Nobody's.
        assert_eq!(as_role("pq_one", pause), "42501");
        assert_eq!(as_role("pq_one", "SELECT sched.define_job('pq/one', queue => 'pq/own')"), "");
        for call in [pause, resume, pause] {
            assert_eq!(as_role("pq_two", call), "42501");
            assert_eq!(as_role("pq_one", call), "");
        }
        check(
            "SELECT queue, paused_by, paused_at <= clock_timestamp() FROM sched.paused_queue WHERE queue = 'pq/own'",
            "pq/own|pq_one|t",
        );
        // Two jobs of two roles.
        assert_eq!(as_role("pq_two", "SELECT sched.define_job('pq/two', 'sql', 'SELECT 1', queue => 'pq/own')"), "");
        for call in [pause, resume] {
            assert_eq!(as_role("pq_one", call), "42501");
            assert_eq!(as_role("pq_two", call), "42501");
        }
        run(&["GRANT pq_two TO pq_one"]);
        assert_eq!(as_role("pq_one", resume), "");
        run(&["REVOKE pq_two FROM pq_one"]);
        // What others have left there.
        assert_eq!(as_role("pq_two", "SELECT sched.enqueue('pq/two')"), "");
        run(&["SELECT sched.drop_job('pq/two')"]);
        assert_eq!(as_role("pq_one", pause), "42501");
        run(&["SELECT sched.cancel(id) FROM sched.execution WHERE job_name = 'pq/two'"]);
        assert_eq!(as_role("pq_one", pause), "");
        // A superuser may.
        run(&[resume, "SELECT sched.pause_queue('pq/nobody''s')"]);
    }

    #[pg_test]
    fn bad_queue_names() {
        for function in ["pause_queue", "resume_queue"] {
            refused(&format!("SELECT sched.{function}(NULL)"), "22004");
            refused(&format!("SELECT sched.{function}('')"), "22023");
            refused(&format!("SELECT sched.{function}(repeat('q', 58))"), "22023");
            run(&[&format!("SELECT sched.{function}(repeat('q', 57))")]);
        }
    }

    #[pg_test]
    fn queues_and_what_is_in_them() {
        let row = |queue: &str| {
            sql(&format!("SELECT paused, ready, delayed, retrying, running, date_trunc('minute', clock_timestamp() - oldest_ready_at) FROM sched.queues WHERE queue = '{queue}'"))
        };
        assert_eq!(row("pq/view"), "");
        run(&["SELECT sched.pause_queue('pq/view')"]);
        assert_eq!(row("pq/view"), "t|0|0|0|0|");
        run(&["SELECT sched.resume_queue('pq/view')"]);
        assert_eq!(row("pq/view"), "");
        run(&[
            "SELECT sched.define_job('pq/view', queue => 'pq/view', max_attempts => 3, retry_backoff => '{1 hour}')",
        ]);
        assert_eq!(row("pq/view"), "f|0|0|0|0|");
        run(&[
            "SELECT sched.define_job('pq/view sql', 'sql', 'SELECT 1', queue => 'pq/view')",
            "SELECT sched.enqueue_many('pq/view', '{1,2,3,4,5}')",
            "SELECT sched.enqueue_many('pq/view sql', '{1,2}')",
        ]);
        time_passes("90 minutes");
        run(&[
            "SELECT sched.finish_failure(execution_id, lease_token) FROM sched.claim('pq/view', 2)",
            "SELECT sched.claim('pq/view', 1)",
        ]);
        assert_eq!(row("pq/view"), "f|4|0|2|1|01:30:00");
        // Retries that are due and that nobody has offered yet.
        time_passes("1 hour");
        assert_eq!(row("pq/view"), "f|6|0|0|1|02:30:00");
        run(&[
            "CREATE ROLE pq_owner",
            "CREATE ROLE pq_stranger",
            "CREATE ROLE pq_watcher",
            "SELECT sched.grant_use('pq_owner')",
            "SELECT sched.grant_use('pq_stranger')",
            "SELECT sched.grant_monitor('pq_watcher')",
            "SELECT sched.pause_queue('pq/view')",
            "SET LOCAL ROLE pq_owner",
            "SELECT sched.define_job('pq/view own', queue => 'pq/view')",
            "SELECT sched.enqueue('pq/view own')",
        ]);
        assert_eq!(row("pq/view"), "t|1|0|0|0|00:00:00");
        run(&["SET LOCAL ROLE pq_stranger"]);
        assert_eq!(row("pq/view"), "");
        run(&["SET LOCAL ROLE pq_watcher"]);
        assert_eq!(row("pq/view"), "t|7|0|0|1|02:30:00");
        run(&["RESET ROLE"]);
    }
}
