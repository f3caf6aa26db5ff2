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

    fn as_role(role: &str, statement: &str) -> String {
        attempt("SELECT 1");
        run(&[&format!("SET LOCAL ROLE {role}")]);
        let refusal = attempt(statement);
        run(&["RESET ROLE"]);
        refusal.map_or_else(String::new, |refusal| refusal.sqlstate)
    }

    fn rows(queue: &str) -> String {
        sql(&format!(
            "SELECT string_agg(COALESCE(owner::text, 'all') || ' by ' || paused_by, ', ' ORDER BY owner::text NULLS FIRST) FROM sched.paused_queue WHERE queue = '{queue}'"
        ))
    }

    /// A role pauses what is its own, and keeps nobody else from anything.
    #[pg_test]
    fn a_pause_holds_for_the_owners_for_whom_the_caller_may_act() {
        for role in ["pq_one", "pq_two", "pq_both"] {
            run(&[&format!("CREATE ROLE {role}"), &format!("SELECT sched.grant_use('{role}')")]);
        }
        run(&["GRANT pq_one, pq_two TO pq_both"]);
        both_ways(|way| {
            let queue = format!("pq/own {way}");
            let pause = format!("SELECT sched.pause_queue('{queue}')");
            let resume = format!("SELECT sched.resume_queue('{queue}')");
            let claimed = |role: &str| {
                run(&[&format!("SET LOCAL ROLE {role}")]);
                let claimed =
                    sql(&format!("SELECT string_agg(job_name, ' ' ORDER BY job_name) FROM sched.claim('{queue}', 9)"));
                run(&[
                    &format!("SELECT sched.snooze(id, lease_token, '2000-01-01') FROM sched.execution WHERE status = 'RUNNING' AND queue = '{queue}'"),
                    "SELECT sched.dispatch_due()",
                    "RESET ROLE",
                ]);
                claimed
            };
            // Nobody else has anything there yet.
            assert_eq!(as_role("pq_one", &pause), "");
            assert_eq!(rows(&queue), "pq_one by pq_one");
            for role in ["pq_one", "pq_two"] {
                let job = format!("{queue} {role}");
                assert_eq!(as_role(role, &format!("SELECT sched.define_job('{job}', queue => '{queue}')")), "");
                assert_eq!(as_role(role, &format!("SELECT sched.enqueue('{job}')")), "");
            }
            assert_eq!(claimed("pq_one"), "");
            assert_eq!(claimed("pq_two"), format!("{queue} pq_two"));
            assert_eq!(claimed("pq_both"), format!("{queue} pq_two"));
            let try_claim = |role: &str| {
                sql(&format!(
                    "SELECT outcome FROM sched.try_claim('{queue} {role}', clock_timestamp(), 'global', 'new')"
                ))
            };
            assert_eq!(try_claim("pq_one"), "conflicted");
            assert_eq!(try_claim("pq_two"), "won");
            run(&[&format!("SELECT sched.finish_success(id, lease_token) FROM sched.execution WHERE queue = '{queue}' AND scope_id = 'new'")]);
            let paused = |role: &str| {
                run(&[&format!("SET LOCAL ROLE {role}")]);
                let paused = sql(&format!("SELECT paused FROM sched.queues WHERE queue = '{queue}'"));
                run(&["RESET ROLE"]);
                paused
            };
            assert_eq!((paused("pq_one"), paused("pq_two")), ("t".to_owned(), "f".to_owned()));
            // Another's pause is not taken back; a member's is.
            assert_eq!(as_role("pq_two", &resume), "");
            assert_eq!(rows(&queue), "pq_one by pq_one");
            assert_eq!(as_role("pq_both", &pause), "");
            assert_eq!(rows(&queue), "pq_both by pq_both, pq_one by pq_one, pq_two by pq_both");
            assert_eq!(claimed("pq_two"), "");
            assert_eq!(as_role("pq_two", &resume), "");
            assert_eq!(rows(&queue), "pq_both by pq_both, pq_one by pq_one");
            // One that holds for all.
            run(&[&pause]);
            assert_eq!(rows(&queue), "all by postgres, pq_both by pq_both, pq_one by pq_one");
            assert_eq!(claimed("pq_two"), "");
            assert_eq!(as_role("pq_one", &resume), "");
            assert_eq!(claimed("pq_one"), "");
            assert_eq!(as_role("pq_one", &resume), "42501");
            run(&[&resume]);
            assert_eq!(rows(&queue), "");
            assert_eq!(claimed("pq_both"), format!("{queue} pq_one {queue} pq_two"));
            run(&[&format!("SELECT sched.cancel(id) FROM sched.execution WHERE queue = '{queue}'")]);
        });
    }

    #[pg_test]
    fn a_role_with_grant_queue_pauses_for_all() {
        for role in ["qg_ops", "qg_app"] {
            run(&[&format!("CREATE ROLE {role}")]);
        }
        run(&[
            "SELECT sched.grant_use('qg_app'), sched.grant_queue('pq/granted', 'qg_ops'), sched.grant_queue('pq/granted', 'qg_ops')",
        ]);
        assert_eq!(as_role("qg_app", "SELECT sched.grant_queue('pq/granted', 'qg_app')"), "42501");
        assert_eq!(as_role("qg_ops", "SELECT sched.pause_queue('pq/granted'), sched.pause_queue('pq/other')"), "");
        assert_eq!(rows("pq/granted"), "all by qg_ops");
        assert_eq!(rows("pq/other"), "qg_ops by qg_ops");
        assert_eq!(as_role("qg_app", "SELECT sched.resume_queue('pq/granted')"), "42501");
        assert_eq!(as_role("qg_ops", "SELECT sched.resume_queue('pq/granted')"), "");
        assert_eq!(rows("pq/granted"), "");
        run(&["SELECT sched.revoke_all('qg_ops')"]);
        check("SELECT count(*) FROM sched.queue_grant", "0");
        assert_eq!(as_role("qg_ops", "SELECT sched.pause_queue('pq/granted')"), "42501");
        refused("SELECT sched.grant_queue(NULL, 'qg_ops')", "22004");
        refused("SELECT sched.grant_queue('', 'qg_ops')", "22023");
        refused("SELECT sched.grant_queue(repeat('q', 58), 'qg_ops')", "22023");
        refused("SELECT sched.grant_queue('pq/granted', 0::regrole)", "42704");
    }

    /// SQL jobs of a role whose pause it is wait; those of another in the queue of that name do not.
    #[pg_test]
    fn runners_of_one_owner_wait_for_its_own_pause() {
        for role in ["pr_one", "pr_two"] {
            run(&[
                &format!("CREATE ROLE {role}"),
                &format!("SELECT sched.grant_use('{role}')"),
                &format!("SET LOCAL ROLE {role}"),
                &format!("SELECT sched.define_job('pr/{role}', 'sql', 'SELECT 1', queue => 'pr/queue'), sched.enqueue('pr/{role}')"),
                "RESET ROLE",
            ]);
        }
        assert_eq!(as_role("pr_one", "SELECT sched.pause_queue('pr/queue')"), "");
        both_ways(|_| {
            for (role, waits) in [("pr_one", 0), ("pr_two", 1)] {
                let owner = pg_sys::Oid::from(sql(&format!("SELECT '{role}'::regrole::oid")).parse::<u32>().unwrap());
                assert_eq!(
                    session(|session| runner::queues_waiting(session, owner, convert::now()).len()),
                    waits,
                    "{role}"
                );
                let waiting = session(|session| runner::owners_waiting(session, 9));
                assert_eq!(waiting.iter().filter(|waiting| waiting.owner == owner).count(), waits, "{role}");
            }
        });
    }

    #[pg_test]
    fn what_is_to_be_delivered_waits_for_a_pause_of_its_owner() {
        run(&["CREATE ROLE pq_a", "CREATE ROLE pq_b", "SELECT sched.grant_use('pq_a'), sched.grant_use('pq_b')"]);
        for (role, kind) in [("pq_a", "log"), ("pq_b", "notify")] {
            run(&[
                &format!("SET LOCAL ROLE {role}"),
                &format!(
                    "SELECT sched.define_job('{role}', '{kind}', {}, queue => 'pq/d')",
                    if kind == "log" { "NULL" } else { "'c'" }
                ),
                &format!("SELECT sched.enqueue('{role}', run_at => clock_timestamp() + interval '1 hour')"),
                "RESET ROLE",
            ]);
        }
        run(&["SET LOCAL ROLE pq_a", "SELECT sched.pause_queue('pq/d')", "RESET ROLE"]);
        time_passes("2 hours");
        let ended = "SELECT string_agg(job_name, ' ' ORDER BY job_name) FROM sched.execution WHERE job_name LIKE 'pq\\__' AND status = 'SUCCESS'";
        run(&["SELECT sched.dispatch_due()"]);
        check(ended, "pq_b");
        check("SELECT DISTINCT queue FROM sched.execution WHERE job_name LIKE 'pq\\__'", "pq/d");
        run(&["SET LOCAL ROLE pq_a", "SELECT sched.resume_queue('pq/d')", "RESET ROLE", "SELECT sched.dispatch_due()"]);
        check(ended, "pq_a pq_b");
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
