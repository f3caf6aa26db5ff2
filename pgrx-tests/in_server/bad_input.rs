//! What may not be: each is refused with its SQLSTATE, a message in the house style and a hint, and writes nothing.

use pgrx::prelude::*;

#[pg_schema]
#[allow(clippy::unwrap_used, reason = "test code")]
mod tests {
    use pgrx::prelude::*;

    use crate::test_support::{check, created, fails, refused, run, sql};

    const PLAN: &str = "'2026-01-01'";

    /// An unfinished run and a schedule, so that there is something to spoil; the run's id and token.
    fn world(job: &str) -> (String, String) {
        created(&format!("{job}/schedule"), "every 1 hour", "");
        run(&[&format!("SELECT sched.define_job('{job}', max_attempts => 3)")]);
        let row =
            sql(&format!("SELECT execution_id, lease_token FROM sched.try_claim('{job}', {PLAN}, max_attempts => 3)"));
        let (id, token) = row.split_once('|').unwrap();
        (format!("'{id}'"), format!("'{token}'"))
    }

    /// Every call of `calls` with each bad value in the place of `$`.
    fn each(calls: &[&str], values: &[(&str, &str)]) {
        for call in calls {
            for (value, sqlstate) in values {
                refused(&format!("SELECT * FROM sched.{}", call.replace('$', value)), sqlstate);
            }
        }
    }

    #[pg_test]
    fn bad_names() {
        world("b/names");
        each(
            &[
                "define_job($)",
                "define_job('b/x', queue => $)",
                "drop_job($)",
                "alter_job($)",
                "create_schedule($, 'never', 'b/names')",
                "create_schedule('b/x', 'never', 'b/names', scope_kind => $)",
                "try_claim($, '2026-01-01')",
                "try_claim('b/x', '2026-01-01', $)",
                "try_claim('b/x', '2026-01-01', 'k', $)",
                "enqueue($)",
                "enqueue('b/x', scope_kind => $)",
                "enqueue_many($, '{1}')",
                "enqueue_many('b/x', '{1}', scope_kind => $)",
                "claim($)",
                "latest_plan($)",
                "latest_plan('b/x', $)",
                "latest_plan('b/x', 'k', $)",
                "attempts_since_success($)",
                "due_plans($, '@daily')",
                "due_plans('b/x', '@daily', 'k', $)",
                "pause($)",
                "resume($)",
                "drop_schedule($)",
                "fire_now($)",
                "backfill($, '2026-01-01', '2026-01-02')",
                "alter_schedule($)",
            ],
            &[("''", "22023"), ("repeat('x', 10240)", "22023"), ("NULL", "22004")],
        );
        // Where NULL says to take the default.
        each(
            &[
                "try_claim('b/x', '2026-01-01', runner_id => $)",
                "claim(runner_id => $)",
                "enqueue('b/x', scope_id => $)",
                "create_schedule('b/x', 'never', 'b/names', scope_id => $)",
                "alter_schedule('b/names/schedule', new_name => $)",
                "mark_stale_as_failed($)",
                "alter_job('b/names', queue => $)",
            ],
            &[("''", "22023"), ("repeat('x', 10240)", "22023")],
        );
        each(&["create_schedule('b/x', 'never', $)"], &[("NULL", "22004"), ("'b/unknown'", "42704")]);
        each(&["define_job('b/x', kind => $)"], &[("NULL", "22004"), ("''", "22023"), ("'cron'", "22023")]);
        each(&["alter_job('b/names', kind => $)"], &[("''", "22023"), ("'cron'", "22023")]);
    }

    #[pg_test]
    fn bad_times() {
        let (id, token) = world("b/times");
        let infinite = [("'infinity'::timestamptz", "22008"), ("'-infinity'::timestamptz", "22008")];
        let failure = format!("finish_failure({id}, {token}, next_retry_at => $)");
        each(
            &[
                "try_claim('b/times', $)",
                "enqueue('b/times', plan_time => $)",
                &failure,
                "create_schedule('b/x', '@daily', 'b/times', starts_at => $)",
                "create_schedule('b/x', '@daily', 'b/times', ends_at => $)",
                "alter_schedule('b/times/schedule', ends_at => $)",
                "backfill('b/times/schedule', $, '2026-01-02')",
                "backfill('b/times/schedule', '2026-01-01', $)",
                "next_time('@daily', $)",
                "preview('@daily', after => $)",
            ],
            &infinite,
        );
        each(
            &[
                "try_claim('b/times', $)",
                "backfill('b/times/schedule', $, '2026-01-02')",
                "backfill('b/times/schedule', '2026-01-01', $)",
            ],
            &[("NULL", "22004")],
        );
    }

    #[pg_test]
    fn bad_intervals() {
        let (id, token) = world("b/intervals");
        let heartbeat = format!("heartbeat({id}, {token}, $)");
        let never = [
            ("'-1 second'", "22023"),
            ("'1 month'", "22023"),
            ("'1 year -364 days'", "22023"),
            ("'2147483647 days'", "22008"),
            ("interval '2562047788:00:54.775807' + '2147483647 days'", "22008"),
        ];
        let positive = [
            "define_job('b/intervals', stale_timeout => $)",
            "define_job('b/intervals', run_timeout => $)",
            "alter_job('b/intervals', stale_timeout => $)",
            "alter_job('b/intervals', run_timeout => $)",
            "try_claim('b/x', '2026-01-01', stale_timeout => $)",
            "claim(stale_timeout => $)",
            &heartbeat,
            "due_plans('b/x', '@daily', catch_up_window => $)",
            "create_schedule('b/x', '@daily', 'b/intervals', catch_up_window => $)",
        ];
        each(&positive, &never);
        each(&positive, &[("'0'", "22023")]);
        each(
            &[
                "define_job('b/intervals', retry_backoff => ARRAY['1 second', $]::interval[])",
                "due_plans('b/x', '@daily', delay => $)",
                "create_schedule('b/x', '@daily', 'b/intervals', delay => $)",
                "create_schedule('b/x', '@daily', 'b/intervals', jitter => $)",
            ],
            &never,
        );
        each(
            &[
                "define_job('b/intervals', retry_backoff => ARRAY[$]::interval[])",
                "alter_job('b/intervals', retry_backoff => ARRAY[$]::interval[])",
            ],
            &[("NULL", "22004")],
        );
        each(&["define_job('b/intervals', run_timeout => $)"], &[("'5 minutes'", "22023"), ("'1 hour'", "22023")]);
    }

    #[pg_test]
    fn bad_numbers() {
        world("b/numbers");
        let few = [("0", "22023"), ("-1", "22023"), ("-2147483648", "22023")];
        let counted = [
            "claim(max_claims => $)",
            "due_plans('b/x', '@daily', max_plans_per_tick => $)",
            "create_schedule('b/x', '@daily', 'b/numbers', max_plans_per_tick => $)",
            "alter_schedule('b/numbers/schedule', max_plans_per_tick => $)",
            "define_job('b/numbers', max_attempts => $)",
            "alter_job('b/numbers', max_attempts => $)",
            "dispatch_due($)",
            "try_claim('b/x', '2026-01-01', max_attempts => $)",
            "try_claim('b/numbers', '2026-01-01', max_attempts => $)",
        ];
        each(&counted, &few);
        each(&counted[..3], &[("NULL", "22004")]);
        each(
            &["define_job('b/numbers', priority => $)", "define_job('b/numbers', allow_stale_reentry => $)"],
            &[("NULL", "22004")],
        );
    }

    #[pg_test]
    fn bad_json() {
        let (id, token) = world("b/json");
        let success = |result: &str| format!("SELECT sched.finish_success({id}, {token}, result => {result})");
        refused(&success("to_jsonb(repeat('x', 16383))"), "54000");
        // Short in bytes of the value, long as text.
        refused(&success("to_jsonb(repeat('\"', 8192))"), "54000");
        refused(&success("NULL"), "22004");
        refused("SELECT sched.enqueue('b/x', NULL)", "22004");
        // What Postgres itself takes for no JSON.
        for (json, sqlstate) in [("'\"\\u0000\"'", "22P05"), ("repeat('[', 100000)::jsonb", "54001"), ("'{'", "22P02")]
        {
            fails(&format!("SELECT sched.enqueue('b/x', {json})"), sqlstate);
            fails(&success(json), sqlstate);
            fails(&format!("SELECT sched.heartbeat({id}, {token}, progress => {json})"), sqlstate);
        }
        // Depth is no fault.
        let deep = "(repeat('[', 3000) || repeat(']', 3000))::jsonb";
        run(&[
            &format!("SELECT sched.enqueue('b/deep', {deep})"),
            &format!("SELECT sched.heartbeat({id}, {token}, progress => {deep})"),
            &success(deep),
        ]);
        check(&format!("SELECT payload = {deep} FROM sched.claim()"), "t");
        check(&format!("SELECT result = {deep}, progress = {deep} FROM sched.execution WHERE id = {id}"), "t|t");
    }

    #[pg_test]
    fn bad_roles() {
        let owner = sql("SELECT nspowner::regrole FROM pg_namespace WHERE nspname = 'sched'");
        for function in ["grant_use", "grant_monitor", "grant_worker", "revoke_all"] {
            for role in ["'-'", "0", "424242::oid"] {
                refused(&format!("SELECT sched.{function}({role}::regrole)"), "42704");
            }
            refused(&format!("SELECT sched.{function}(NULL)"), "22004");
        }
        refused(&format!("SELECT sched.revoke_all('{owner}')"), "2BP01");
    }

    #[pg_test]
    fn bad_ids() {
        let (id, token) = world("b/ids");
        let other = sql("SELECT quote_literal(lease_token) FROM sched.try_claim('b/ids', '2026-01-02')");
        let unknown = "gen_random_uuid()".to_owned();
        for function in ["heartbeat", "assert_lease", "finish_success", "finish_failure"] {
            for (id, token) in [(&id, &other), (&id, &unknown), (&unknown, &token), (&unknown, &unknown)] {
                let refusal = refused(&format!("SELECT sched.{function}({id}, {token})"), "55000");
                assert_eq!(refusal.message, "lease lost");
            }
            refused(&format!("SELECT sched.{function}(NULL, {token})"), "22004");
            refused(&format!("SELECT sched.{function}({id}, NULL)"), "22004");
        }
        refused("SELECT sched.cancel(NULL)", "22004");
        check("SELECT sched.cancel(gen_random_uuid())", "f");
        let many =
            |ids: &str, tokens: &str| format!("SELECT sched.finish_success_many({ids}::uuid[], {tokens}::uuid[])");
        let (ids, tokens) = (format!("ARRAY[{id}]"), format!("ARRAY[{token}]"));
        for (ids, tokens, sqlstate) in [
            ("NULL", tokens.as_str(), "22004"),
            (ids.as_str(), "NULL", "22004"),
            ("ARRAY[NULL]", &tokens, "22023"),
            (&ids, "ARRAY[NULL]", "22023"),
            (&ids, "'{}'", "22023"),
            ("'{}'", &tokens, "22023"),
        ] {
            refused(&many(ids, tokens), sqlstate);
        }
        check(&format!("SELECT count(*) FROM ({}) lost", many(&ids, &format!("ARRAY[{other}]"))), "1");
        check("SELECT count(*) FROM sched.execution WHERE status = 'RUNNING'", "2");
    }

    /// `NOTIFY` carries 7,999 bytes: what is longer is refused where it is passed, not where it fires.
    #[pg_test]
    fn a_payload_that_no_notification_carries() {
        run(&[
            "SELECT sched.define_job('n/tell', 'notify', 'channel'), sched.define_job('n/pull')",
            "SELECT sched.create_schedule('n/fits', 'never', 'n/tell', payload => to_jsonb(repeat('x', 7997)))",
            "SELECT sched.create_schedule('n/other', 'never', 'n/pull', payload => to_jsonb(repeat('x', 7998)))",
            "CREATE TEMP TABLE later AS SELECT sched.enqueue('n/tell', run_at => '2100-01-01', scope_id => 'one', unique_by => 'scope') AS id",
        ]);
        for call in [
            "sched.create_schedule('n/long', 'never', 'n/tell', payload => long)",
            "sched.create_schedules(jsonb_build_array(jsonb_build_object('schedule_name', 'n/long', 'clock', 'never', 'job_name', 'n/tell', 'payload', long)))",
            "sched.alter_schedule('n/fits', payload => long)",
            "sched.alter_schedule('n/other', job_name => 'n/tell')",
            "sched.enqueue('n/tell', long)",
            "sched.enqueue('n/tell', long, run_at => '2100-01-01')",
            "sched.enqueue('n/tell', long, run_at => '2100-01-01', scope_id => 'one', unique_by => 'scope', if_exists => 'replace')",
            "sched.enqueue_many('n/tell', ARRAY['1', long])",
            "sched.alter_execution((SELECT id FROM later), payload => long)",
        ] {
            let refusal = refused(&format!("SELECT {call} FROM to_jsonb(repeat('x', 7998)) AS long"), "22023");
            assert!(refusal.message.contains("payload for job \"n/tell\" of kind notify is too long: 8000 bytes"), "{call}: {refusal:?}");
        }
        check("SELECT count(*) FROM sched.schedules WHERE schedule_name LIKE 'n/%'", "2");
        check("SELECT count(*) FROM sched.execution WHERE payload <> '{}'", "0");
        run(&["SELECT sched.alter_schedule('n/other', payload => to_jsonb(repeat('x', 10000)))"]);
    }

    #[pg_test]
    fn bad_failures() {
        let (id, token) = world("b/failures");
        let failure = format!("finish_failure({id}, {token}, $)");
        each(
            &[&failure],
            &[
                ("''", "22023"),
                ("NULL", "22004"),
                ("repeat('x', 10240)", "22023"),
                ("error_msg => NULL", "22004"),
                ("terminal => NULL", "22004"),
                ("next_retry_at => '2999-01-01', terminal => true", "22023"),
            ],
        );
    }
}
