//! A batch that fires row by row (src/store/timer/due_scan.rs, fire.rs) says what its statements say.

use pgrx::prelude::*;

#[pg_schema]
#[allow(clippy::unwrap_used, reason = "test code")]
mod tests {
    use pgrx::prelude::*;

    use crate::store::timer::fire::FireTables;
    use crate::test_support::tables::*;
    use crate::test_support::{alone, check, created, executed, run, set_fast_path, sql, time_passes};

    /// Whether a batch would be written row by row just now.
    fn row_by_row() -> bool {
        let schema = unsafe { pg_sys::get_namespace_oid(c"sched".as_ptr(), false) };
        FireTables::open(schema).is_some()
    }

    /// What is in the tables that a batch writes; times as minutes ago, ids left out.
    fn rows() -> String {
        let ago = |time: &str| format!("round(extract(epoch FROM clock_timestamp() - {time}) / 60)");
        let (plan, created, updated) = (ago("l.plan_time"), ago("l.created_at"), ago("l.updated_at"));
        let (next, fire, last) = (ago("t.next_plan_time"), ago("t.fire_at"), ago("t.last_plan_time"));
        let (cursor, fired) = (ago("t.cursor_at"), ago("t.last_fired_at"));
        let (buffered, backlog, waits) = (ago("t.buffered_plan"), ago("t.backlog_until"), ago("r.plan_time"));
        [
            format!(
                "SELECT l.schedule_name, s.schedule_name, {plan}, l.job_name, l.scope_kind, l.scope_id, l.key = s.key, l.queue, l.priority,
                        l.payload, l.status, l.attempt, l.max_attempts, l.allow_stale_reentry, l.awaited, l.origin, l.owner,
                        {created}, {updated}, l.started_at IS NULL, l.finished_at IS NULL, l.result, l.progress, l.fence IS NULL
                   FROM sched.ledger l LEFT JOIN sched.schedule s USING (schedule_id) ORDER BY l.key, l.plan_time"
            ),
            format!(
                "SELECT r.route, r.queue, r.runs_as, r.priority, {waits}, r.owner, l.schedule_name FROM {READY} r
                   JOIN sched.ledger l ON l.id = r.execution_id AND l.plan_time = r.plan_time ORDER BY 7, 5"
            ),
            "SELECT s.schedule_name, l.job_name FROM sched.awaited a JOIN sched.schedule s USING (schedule_id)
               JOIN sched.ledger l ON l.id = a.execution_id ORDER BY 1, l.plan_time".to_owned(),
            format!(
                "SELECT s.schedule_name, t.version = s.version, {next}, {fire}, t.waiting, {buffered}, {cursor}, {backlog}, {last}, {fired},
                        t.error_count, t.last_error, t.parked
                   FROM {TIMER} t JOIN sched.schedule s USING (schedule_id) ORDER BY 1"
            ),
            "SELECT s.schedule_name, k.reason, k.count FROM sched.skip k JOIN sched.schedule s USING (schedule_id) ORDER BY 1, k.plan_from".to_owned(),
            "SELECT s.schedule_name, c.terminal_at IS NULL FROM sched.schedule_change c JOIN sched.schedule s USING (schedule_id) ORDER BY 1".to_owned(),
        ]
        .map(|statement| sql(&statement))
        .join("\n--\n")
    }

    /// A life of schedules of every kind, and what it left behind after each of its steps.
    fn life() -> String {
        run(&[
            NO_EXECUTIONS,
            &format!("TRUNCATE sched.schedule, sched.schedule_change, sched.schedule_definition, {TIMER_TABLE}, sched.timer_state, sched.skip"),
        ]);
        for (name, clock, arguments) in [
            ("f/plain", "every 1 hour", "payload => '{\"a\": [1, null]}', scope_kind => 'tenant', scope_id => '7'"),
            ("f/large", "every 1 hour", "payload => (SELECT jsonb_agg(md5(i::text)) FROM generate_series(1, 2000) i)"),
            ("f/every", "every 1 hour", "catch_up => 'every_plan', max_plans_per_tick => 2"),
            ("f/missed", "every 1 hour", "catch_up => 'skip_missed'"),
            ("f/skip", "every 1 hour", "overlap => 'skip'"),
            ("f/buffer", "every 1 hour", "overlap => 'buffer_one'"),
            ("f/terminal", "every 1 hour", "rearm => 'on_terminal'"),
            ("f/backlog", "every 1 hour", "rearm => 'on_terminal', catch_up => 'every_plan'"),
            ("f/taken", "every 1 hour", ""),
            ("f/waits for another's", "every 1 hour", "rearm => 'on_terminal'"),
            ("f/notify", "every 1 hour", "payload => '{\"n\": 1}'"),
            ("f/log", "every 1 hour", ""),
            ("f/delayed", "every 1 hour", "delay => '1 minute'"),
        ] {
            created(name, clock, arguments);
        }
        let dispatch = || sql("SELECT sched.dispatch_due()");
        let mut said = vec![dispatch()];
        time_passes("150 minutes");
        said.push(sql(
            &format!("SELECT count(*) FROM sched.schedule s JOIN {TIMER} t USING (schedule_id)
              CROSS JOIN LATERAL sched.try_claim(s.job_name, t.next_plan_time + interval '1 hour', s.scope_kind, s.scope_id)
              WHERE schedule_name IN ('f/taken', 'f/waits for another''s')"),
        ));
        for _ in 0..2 {
            said.extend([dispatch(), rows()]);
        }
        time_passes("61 minutes");
        said.extend([dispatch(), rows()]);
        said.push(sql(
            "SELECT count(sched.finish_success(execution_id, lease_token)) FROM sched.claim(max_claims => 100)",
        ));
        said.extend([dispatch(), rows()]);
        // The runs of two are the same.
        run(&["SELECT sched.create_schedule('f/twin', 'every 1 hour', 'job of f/plain', scope_kind => 'tenant', scope_id => '7')",
              "UPDATE sched.schedule s SET created_at = p.created_at FROM sched.schedule p WHERE s.schedule_name = 'f/twin' AND p.schedule_name = 'f/plain'"]);
        said.push(dispatch());
        time_passes("61 minutes");
        said.extend([dispatch(), rows()]);
        said.join("\n====\n")
    }

    #[pg_test]
    fn a_batch_fires_alike_row_by_row_and_by_statements() {
        alone();
        run(&[
            "SELECT sched.define_job('job of f/plain', queue => 'q', priority => 3, max_attempts => 4, allow_stale_reentry => false)",
            "SELECT sched.define_job('job of f/notify', kind => 'notify', command => 'a_channel')",
            "SELECT sched.define_job('job of f/log', kind => 'log')",
        ]);
        assert!(row_by_row(), "as they are made, nothing stands in the way");
        set_fast_path(true);
        let expected = life();
        for name in [
            "f/plain",
            "f/large",
            "f/every",
            "f/skip",
            "f/buffer",
            "f/terminal",
            "f/backlog",
            "f/notify",
            "f/log",
            "f/twin",
        ] {
            assert!(expected.contains(&format!("\n{name}|")), "{name} in {expected}");
        }
        set_fast_path(false);
        assert_eq!(life(), expected, "with sched.fast_path off");
        set_fast_path(true);
        run(&[
            "CREATE TABLE public.f_fired (what text)",
            "CREATE FUNCTION public.f_note() RETURNS trigger LANGUAGE plpgsql AS
             $$BEGIN INSERT INTO public.f_fired VALUES (TG_ARGV[0] || ' ' || TG_OP); RETURN NULL; END$$",
        ]);
        for (rows, table) in
            [("ledger", "sched.ledger"), ("ready", READY_TABLE), ("awaited", "sched.awaited"), ("timer", TIMER_TABLE)]
        {
            run(&[&format!("CREATE TRIGGER f_note AFTER INSERT OR UPDATE ON {table} FOR EACH ROW EXECUTE FUNCTION public.f_note('{rows}')")]);
            assert!(!row_by_row());
            assert_eq!(life(), expected, "with a trigger on {rows}");
            run(&[&format!("DROP TRIGGER f_note ON {table}")]);
        }
        check(
            "SELECT what, count(*) > 0 FROM public.f_fired WHERE what IN ('ledger INSERT', 'ready INSERT', 'awaited INSERT', 'timer UPDATE') GROUP BY 1 ORDER BY 1",
            "awaited INSERT|t\nledger INSERT|t\nready INSERT|t\ntimer UPDATE|t",
        );
        for table in ["schedule", "job"] {
            run(&[&format!("ALTER TABLE sched.{table} ADD COLUMN f_note text")]);
            assert!(!row_by_row());
            assert_eq!(life(), expected, "with a column of {table}");
            run(&[&format!("ALTER TABLE sched.{table} ENABLE ROW LEVEL SECURITY")]);
            assert!(!row_by_row());
            run(&[&format!("ALTER TABLE sched.{table} DISABLE ROW LEVEL SECURITY")]);
        }
    }

    /// With `sched.fast_path` off the same batch is found, read and written by statements.
    #[pg_test]
    fn the_switch_sends_fires_to_the_statements() {
        alone();
        created("f/switched", "every 1 hour", "");
        sql("SELECT sched.dispatch_due()");
        let fired = |on| {
            set_fast_path(on);
            time_passes("61 minutes");
            executed(|| check("SELECT sched.dispatch_due()", "1"))
        };
        // What a session asks once.
        fired(true);
        let (by_rows, by_statements) = (fired(true), fired(false));
        assert!(by_rows + 3 <= by_statements, "{by_rows} and {by_statements} statements");
    }

    #[pg_test]
    fn a_role_without_the_rights_is_left_to_the_statements() {
        assert!(row_by_row());
        run(&["CREATE ROLE f_stranger", "SET LOCAL ROLE f_stranger"]);
        assert!(!row_by_row());
        run(&["RESET ROLE"]);
    }

    #[pg_test]
    fn constraints_of_what_a_batch_writes_hold() {
        alone();
        created("f/bad", "every 1 hour", "payload => '{\"bad\": 1}'");
        created("f/good", "every 1 hour", "");
        sql("SELECT sched.dispatch_due()");
        run(&["ALTER TABLE sched.ledger ADD CONSTRAINT f_payload CHECK (NOT payload ? 'bad')"]);
        assert!(row_by_row());
        time_passes("61 minutes");
        check("SELECT sched.dispatch_due()", "1");
        check("SELECT schedule_name FROM sched.ledger", "f/good");
        check(&format!("SELECT schedule_name, error_count, last_error LIKE '%f_payload%' FROM {TIMER} t JOIN sched.schedule USING (schedule_id) WHERE error_count > 0"), "f/bad|1|t");
    }
}
