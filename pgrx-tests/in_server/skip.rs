//! What did not run, and why: sched.skipped and sched.explain.

use pgrx::prelude::*;

#[pg_schema]
mod tests {
    use pgrx::prelude::*;

    use crate::test_support::tables::*;
    use crate::test_support::{alone, check, created, dispatch, fails, refused, run, sql, time_passes};

    /// The skips of a schedule: minutes before now of the first and the last plan, how many, why.
    fn skipped(name: &str) -> String {
        sql(&format!(
            "SELECT round(extract(epoch FROM clock_timestamp() - plan_from) / 60), round(extract(epoch FROM clock_timestamp() - plan_to) / 60), count, reason
               FROM sched.skipped WHERE schedule_name = '{name}' ORDER BY plan_from"
        ))
    }

    /// The verdicts on the plan times of a schedule from its creation to an hour from now.
    fn explained(name: &str) -> String {
        sql(&format!(
            "SELECT string_agg(concat_ws('/', e.verdict, e.reason), ' ' ORDER BY e.plan_time)
               FROM sched.schedule s, sched.explain(s.schedule_name, s.created_at, clock_timestamp() + interval '1 hour') e
              WHERE s.schedule_name = '{name}'"
        ))
    }

    #[pg_test]
    fn what_fires_on_time_leaves_no_trace() {
        created("k/fine", "every 1 hour", "");
        dispatch(0);
        for _ in 0..3 {
            time_passes("1 hour");
            dispatch(1);
        }
        check("SELECT (SELECT count(*) FROM sched.skip), (SELECT count(*) FROM sched.timer_state), (SELECT count(*) FROM sched.skipped)", "0|0|0");
        assert_eq!(explained("k/fine"), "fired fired fired planned");
        check(
            "SELECT count(*) FROM sched.explain('k/fine', now() - interval '1 day', clock_timestamp()) x JOIN sched.execution e ON e.id = x.execution_id AND e.plan_time = x.plan_time",
            "3",
        );
    }

    /// The window begins when the plan may be dispatched: a delay that is longer than the window makes nothing late.
    #[pg_test]
    fn the_window_counts_from_the_end_of_the_delay() {
        created("k/late", "every 1 hour", "delay => '10 minutes', catch_up_window => '5 minutes'");
        dispatch(0);
        time_passes("74 minutes");
        dispatch(1);
        time_passes("62 minutes");
        dispatch(0);
        check("SELECT reason, count FROM sched.skip", "window|1");
        assert_eq!(explained("k/late"), "fired skipped/window planned");
    }

    /// Two outages and what was too old: a run of skips with one reason is one row, and grows.
    #[pg_test]
    fn runs_of_skips_are_one_row() {
        created("k/run", "every 1 hour", "overlap => 'skip'");
        created("k/old", "every 1 hour", "catch_up => 'every_plan', catch_up_window => '90 minutes'");
        dispatch(0);
        time_passes("61 minutes");
        dispatch(2);
        for _ in 0..5 {
            time_passes("1 hour");
            run(&["SELECT sched.dispatch_due()"]);
        }
        assert_eq!(skipped("k/run"), "241|1|5|overlap");
        check("SELECT count(*) FROM sched.skip", "1");
        run(&["SELECT sched.cancel(id) FROM sched.execution"]);
        time_passes("4 hours");
        dispatch(3);
        assert_eq!(skipped("k/run"), "481|241|5|overlap\n181|61|3|missed");
        assert_eq!(skipped("k/old"), "181|121|2|window");
        assert_eq!(
            explained("k/run"),
            "fired skipped/overlap skipped/overlap skipped/overlap skipped/overlap skipped/overlap skipped/missed skipped/missed skipped/missed fired planned"
        );
    }

    /// 86,400,000,000 plans are counted, not walked; nor is a year of a cron clock that fires each second.
    #[pg_test]
    fn a_hog_is_counted_at_once() {
        created("k/hog", "every 1 microsecond", "");
        created("k/second", "* * * * * *", "");
        run(&["SELECT sched.dispatch_due()"]);
        time_passes("365 days");
        dispatch(2);
        check("SELECT sum(count) BETWEEN 31536000000000 - 9 AND 31536000000000 + 600000000 FROM sched.skipped WHERE schedule_name = 'k/hog'", "t");
        check("SELECT sum(count) BETWEEN 31536000 - 3 AND 31536000 + 600 FROM sched.skipped WHERE schedule_name = 'k/second'", "t");
        run(&["SELECT sched.pause('k/hog'), sched.pause('k/second')"]);
        time_passes("365 days");
        check("SELECT count(*) FROM sched.skipped WHERE reason = 'paused' AND count >= 31535999", "2");
        refused("SELECT sched.explain('k/hog', clock_timestamp() - interval '1 second', clock_timestamp())", "54000");
        check("SELECT count(*), min(verdict) FROM sched.explain('k/hog', now() - interval '1 hour', now() - interval '1 hour' + interval '100 milliseconds')", "100000|skipped");
    }

    #[pg_test]
    fn a_pause_is_shown_while_it_goes_on_and_after() {
        created("k/pause", "every 1 hour", "");
        dispatch(0);
        run(&["SELECT sched.pause('k/pause')"]);
        assert_eq!(skipped("k/pause"), "");
        time_passes("150 minutes");
        // Whether or not a dispatcher has seen it.
        assert_eq!(skipped("k/pause"), "90|30|2|paused");
        assert_eq!(explained("k/pause"), "skipped/paused skipped/paused planned/paused");
        dispatch(0);
        assert_eq!(skipped("k/pause"), "90|30|2|paused");
        run(&["SELECT sched.resume('k/pause')"]);
        assert_eq!(explained("k/pause"), "skipped/paused skipped/paused planned");
        dispatch(0);
        assert_eq!(skipped("k/pause"), "90|30|2|paused");
        assert_eq!(explained("k/pause"), "skipped/paused skipped/paused planned");
    }

    #[pg_test]
    fn what_a_parked_schedule_is_not_made_up_for() {
        for (name, catch_up) in [("k/park1", "latest_only"), ("k/park2", "every_plan")] {
            created(name, "every 1 hour", &format!("catch_up => '{catch_up}'"));
        }
        dispatch(0);
        run(&["DELETE FROM sched.job WHERE job_name ^@ 'job of k/park'"]);
        time_passes("61 minutes");
        dispatch(0);
        time_passes("2 hours");
        assert_eq!(skipped("k/park1"), "121|1|3|parked");
        assert_eq!(explained("k/park1"), "waiting/parked waiting/parked waiting/parked planned/parked");
        run(&["SELECT sched.define_job('job of k/park1'), sched.define_job('job of k/park2')"]);
        dispatch(4);
        assert_eq!(skipped("k/park1"), "121|61|2|parked");
        assert_eq!(explained("k/park1"), "skipped/parked skipped/parked fired planned");
        assert_eq!((skipped("k/park2"), explained("k/park2")), (String::new(), "fired fired fired planned".to_owned()));
    }

    /// Another scope, another clock: each plan time is looked for where it was.
    #[pg_test]
    fn the_past_is_read_as_it_was() {
        created("k/past", "every 1 hour", "");
        dispatch(0);
        time_passes("61 minutes");
        dispatch(1);
        run(&["SELECT sched.alter_schedule('k/past', scope_id => 'k/elsewhere')"]);
        time_passes("1 hour");
        dispatch(1);
        run(&["SELECT sched.alter_schedule('k/past', clock => 'every 30 minutes', new_name => 'k/new')"]);
        time_passes("1 hour");
        assert_eq!(explained("k/new"), "fired fired due due planned planned");
        dispatch(1);
        assert_eq!(explained("k/new"), "fired fired skipped/missed fired planned planned");
        run(&["SELECT sched.alter_schedule('k/new', clock => 'never')"]);
        assert_eq!(explained("k/new"), "fired fired skipped/missed fired");
        run(&["SELECT sched.drop_schedule('k/new')"]);
        dispatch(0);
        check("SELECT (SELECT count(*) FROM sched.skip), (SELECT count(*) FROM sched.schedule_definition), (SELECT count(*) FROM sched.timer_state)", "0|0|0");
    }

    /// A record that was pruned is told as such, and never taken for a plan that was lost.
    #[pg_test]
    fn what_is_no_longer_kept_is_forgotten() {
        created("k/gone", "every 1 hour", "");
        dispatch(0);
        time_passes("61 minutes");
        dispatch(1);
        time_passes("3 hours");
        dispatch(1);
        run(&["DELETE FROM sched.ledger WHERE plan_time < now() - interval '3 hours'", "DELETE FROM sched.skip"]);
        assert_eq!(explained("k/gone"), "forgotten forgotten forgotten fired planned");
    }

    /// Scopes that a schedule has left are known as long as they tell something: it may get a new one each day.
    #[pg_test]
    fn former_scopes_are_forgotten_with_what_they_tell() {
        alone();
        let moves_to = |scope: &str| {
            run(&[
                // The edit before was another transaction's, long ago.
                "ALTER TABLE sched.schedule DISABLE TRIGGER schedule_before_update",
                "UPDATE sched.schedule SET updated_at = updated_at - interval '1 day'",
                "ALTER TABLE sched.schedule ENABLE ALWAYS TRIGGER schedule_before_update",
                &format!("SELECT sched.alter_schedule('k/moves', scope_id => '{scope}')"),
            ]);
            dispatch(0);
            sql("SELECT string_agg(coalesce(e.scope_id, '-'), ' ' ORDER BY k.place)
                   FROM sched.schedule s, unnest(s.previous_keys) WITH ORDINALITY AS k (key, place)
                   LEFT JOIN (SELECT DISTINCT key, scope_id FROM sched.ledger) e USING (key)
                  WHERE s.schedule_name = 'k/moves'")
        };
        created("k/moves", "every 1 hour", "scope_id => 'a'");
        dispatch(0);
        time_passes("61 minutes");
        dispatch(1);
        assert_eq!(moves_to("b"), "a");
        assert_eq!(moves_to("c"), "a -");
        // Nothing ever ran in b.
        assert_eq!(moves_to("d"), "a -");
        let verdicts = explained("k/moves");
        assert_eq!(verdicts, "fired planned");
        run(&["SELECT sched.cancel(id) FROM sched.execution"]);
        sql("UPDATE sched.ledger SET finished_at = finished_at - interval '31 days' RETURNING 1");
        // The newest run is there still: what was fired is known when timers are made anew.
        assert_eq!(moves_to("e"), "a -");
        time_passes("1 hour");
        dispatch(1);
        run(&[&format!("TRUNCATE {TIMER_TABLE}"), "SELECT sched.rebuild()"]);
        dispatch(0);
        // A day of retention has 24 hours, also where the session's clocks were put forward two weeks ago.
        let zone = sql("SELECT format('AAA0BBB,J%s/0,J%s/0', (doy + 349) % 365 + 1, (doy + 14) % 365 + 1) FROM extract(doy FROM now()) AS doy");
        run(&[
            "UPDATE sched.ledger SET finished_at = clock_timestamp() - interval '720 hours' + interval '30 minutes' WHERE scope_id = 'a'",
            &format!("SET LOCAL timezone = '{zone}'"),
        ]);
        check("SELECT now() - interval '30 days' = now() - interval '720 hours'", "f");
        assert_eq!(moves_to("e2"), "a e");
        run(&[
            "SET LOCAL timezone = 'UTC'",
            "UPDATE sched.ledger SET finished_at = finished_at - interval '1 day' WHERE scope_id = 'a'",
        ]);
        assert_eq!(moves_to("f"), "e -");
        // Until the transaction ends that leaves a scope, the schedule fires there.
        run(&["SELECT sched.alter_schedule('k/moves', scope_id => x) FROM unnest('{g,h,i}'::text[]) x"]);
        assert_eq!(
            sql("SELECT string_agg((left_key = any (previous_keys))::text, ' ' ORDER BY x)
                   FROM sched.schedule, unnest('{f,g,h,i}'::text[]) x, sched_internal.scope_key('job of k/moves', 'schedule', x) AS left_key
                  WHERE schedule_name = 'k/moves'"),
            "true true true false"
        );
        // Nor is any forgotten while an edit is not settled: what was fired before it may not be committed yet.
        let moves_to = |scope: &str, more: &str| {
            run(&[
                "ALTER TABLE sched.schedule DISABLE TRIGGER schedule_before_update",
                "UPDATE sched.schedule SET updated_at = updated_at - interval '1 day'",
                "ALTER TABLE sched.schedule ENABLE ALWAYS TRIGGER schedule_before_update",
                &format!("SELECT sched.alter_schedule('k/flight', scope_id => '{scope}'{more})"),
            ]);
            sql("SELECT string_agg((left_key = any (previous_keys))::text, ' ' ORDER BY x)
                   FROM sched.schedule, unnest('{a,b,c,d}'::text[]) x, sched_internal.scope_key('job of k/flight', 'schedule', x) AS left_key
                  WHERE schedule_name = 'k/flight'")
        };
        created("k/flight", "every 1 hour", "scope_id => 'a'");
        dispatch(0);
        assert_eq!(moves_to("b", ", clock => 'every 2 hours'"), "true false false false");
        assert_eq!(moves_to("c", ""), "true true false false");
        dispatch(0);
        assert_eq!(moves_to("d", ""), "false false true false");
    }

    /// A plan that somebody else put into the ledger is remembered, and nothing of the schedules that fire beside it.
    #[pg_test]
    fn only_what_somebody_else_dispatched_is_remembered() {
        created("k/own", "every 1 hour", "");
        created("k/held", "every 1 hour", "");
        dispatch(0);
        time_passes("61 minutes");
        sql(&format!(
            "SELECT sched.try_claim(s.job_name, t.next_plan_time, s.scope_kind, s.scope_id)
               FROM sched.schedule s JOIN {TIMER} t USING (schedule_id) WHERE s.schedule_name = 'k/held'"
        ));
        dispatch(1);
        check(
            &format!(
                "SELECT s.schedule_name, m.external_through = t.last_plan_time
               FROM sched.timer_state m JOIN {TIMER} t USING (schedule_id) JOIN sched.schedule s USING (schedule_id)"
            ),
            "k/held|t",
        );
    }

    /// A run without what the ledger has of it and what lies after its definition; what nobody can read stays as it is.
    #[pg_test]
    fn parts_of_a_run() {
        let parts = |clock: &str, more: &str| {
            sql(&format!(
                "SELECT to_char(plan_from, 'DD'), to_char(plan_to, 'DD'), count FROM sched_internal.skip_parts({clock}, 'UTC', '2026-01-01', NULL, NULL, {more})"
            ))
        };
        let whole = "'2026-01-02', '2026-01-09', 8";
        assert_eq!(
            parts("'@daily'", &format!("NULL, {whole}, NULL, '{{2026-01-01,2026-01-10,NULL,infinity}}'")),
            "02|09|8"
        );
        assert_eq!(
            parts("'@daily'", &format!("NULL, {whole}, NULL, '{{2026-01-05,2026-01-05 12:00}}'")),
            "02|04|3\n06|09|4"
        );
        assert_eq!(parts("'@daily'", &format!("NULL, {whole}, '{{2026-01-05 12:00}}', NULL")), "02|05|4\n06|09|4");
        assert_eq!(
            parts("'@daily'", &format!("'2026-01-07 12:00', {whole}, '{{2026-01-09}}', '{{2026-01-02}}'")),
            "03|07|5"
        );
        assert_eq!(parts("'@daily'", &format!("'2026-01-01 12:00', {whole}, NULL, NULL")), "");
        assert_eq!(parts("'nonsense'", &format!("NULL, {whole}, '{{2026-01-05}}', NULL")), "02|09|8");
        assert_eq!(parts("NULL", &format!("NULL, {whole}, '{{2026-01-05}}', NULL")), "02|09|8");
        check("SELECT * FROM sched_internal.skip_parts('@daily', 'UTC', now(), NULL, NULL, NULL, '-infinity', 'infinity', 1, NULL, NULL)", "-infinity|infinity|1");
        check(
            "SELECT count(*) FROM sched_internal.skip_parts(NULL, NULL, NULL, NULL, NULL, NULL, NULL, NULL, NULL, NULL, NULL)",
            "0",
        );
    }

    /// Retention leaves the newest skip of a schedule, but not the definition that said which plan times there were: nothing tells of either.
    #[pg_test]
    fn what_retention_has_forgotten_is_skipped_no_more() {
        created("k/old", "every 1 hour", "");
        dispatch(0);
        time_passes("3 hours");
        dispatch(1);
        run(&["SELECT sched.alter_schedule('k/old', clock => 'every 1 day')"]);
        dispatch(0);
        let told = "SELECT (SELECT sum(count) FROM sched.skipped), (SELECT count(*) FROM sched.explain('k/old', clock_timestamp() - interval '1 day', clock_timestamp()) WHERE verdict = 'skipped')";
        check(told, "2|2");
        run(&["DELETE FROM sched.schedule_definition"]);
        check(told, "|0");
        check("SELECT count(*) FROM sched.skip", "1");
    }

    /// What a superuser's hand wrote into one schedule keeps nobody from reading of the others.
    #[pg_test]
    fn a_bad_row_hides_no_other() {
        created("k/hand", "every 1 hour", "");
        created("k/other", "every 1 hour", "");
        dispatch(0);
        time_passes("3 hours");
        dispatch(2);
        run(&[
            "UPDATE sched.schedule SET previous_keys = ARRAY[ARRAY[key], ARRAY[key]] WHERE schedule_name = 'k/hand'",
            "UPDATE sched.skip SET plan_to = 'infinity' WHERE schedule_id = (SELECT schedule_id FROM sched.schedule WHERE schedule_name = 'k/hand')",
        ]);
        check("SELECT schedule_name, count FROM sched.skipped ORDER BY 1", "k/hand|2\nk/other|2");
        check("SELECT count(*) FROM sched.schedules", "2");
    }

    #[pg_test]
    fn bad_questions() {
        created("k/bad", "every 1 hour", "");
        refused("SELECT sched.explain('k/none', now(), now() + interval '1 day')", "42704");
        refused("SELECT sched.explain('k/bad', now(), now())", "22023");
        refused("SELECT sched.explain('k/bad', now(), 'infinity')", "22008");
        refused("SELECT sched.explain('k/bad', NULL, now())", "22004");
        refused("SELECT sched.explain(NULL, now(), now())", "22004");
        refused("SELECT sched.explain('', now(), now())", "22023");
        fails("INSERT INTO sched.skip VALUES (1, now(), now(), now(), 1, 'bored')", "23514");
        // A clock that cannot be read has no plan times.
        run(&["UPDATE sched.schedule SET clock = 'nonsense' WHERE schedule_name = 'k/bad'"]);
        check("SELECT count(*) FROM sched.explain('k/bad', now() - interval '1 day', now() + interval '1 day')", "0");
    }
}
