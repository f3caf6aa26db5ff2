//! Rows of our own tables, read and written without a plan (src/heap): everything that the executor would have seen to.

use pgrx::prelude::*;

#[pg_schema]
#[allow(clippy::unwrap_used, reason = "test code")]
mod tests {
    use pgrx::prelude::*;

    use crate::heap::layouts;
    use crate::pg::jsonb::Jsonb;
    use crate::store::lease::heap::LedgerTables;
    use crate::test_support::tables::*;
    use crate::test_support::{alone, attempt, check, executed, fails, run, set_fast_path, sql, time_passes};

    /// Whether claims and ends go row by row just now.
    fn row_by_row() -> bool {
        let schema = unsafe { pg_sys::get_namespace_oid(c"sched".as_ptr(), false) };
        LedgerTables::open(schema).is_some()
    }

    #[pg_test]
    fn the_layouts_are_those_of_the_catalog() {
        for layout in [
            layouts::LEDGER,
            layouts::LEASE,
            layouts::READY,
            layouts::RETRY,
            layouts::SCHEDULE_CHANGE,
            layouts::HOME,
            layouts::JOB,
            layouts::SCHEDULE,
            layouts::TIMER,
            layouts::AWAITED,
        ] {
            let columns = layout.names.iter().zip(layout.columns);
            let known: Vec<String> = columns.map(|(name, oid)| format!("{name}|{}", oid.to_u32())).collect();
            let table = layout.name.to_str().unwrap();
            check(
                &format!("SELECT attname, atttypid::bigint FROM pg_attribute WHERE attrelid = 'sched.{table}'::regclass AND attnum > 0 ORDER BY attnum"),
                &known.join("\n"),
            );
        }
        assert!(row_by_row(), "as they are made, nothing stands in the way");
    }

    /// What a life of leases leaves behind, and what its functions answered; ids and times left out.
    fn life() -> String {
        run(&["DROP TABLE IF EXISTS held, taken", NO_EXECUTIONS]);
        let mut said = vec![
            sql("SELECT outcome, attempt, max_attempts, payload FROM sched.try_claim('r/job', '2026-01-01', max_attempts => 3)"),
            sql("SELECT outcome, attempt FROM sched.try_claim('r/job', '2026-01-01')"),
            sql(&format!("SELECT sched.heartbeat(execution_id, lease_token, '2 hours', '{{\"at\": 1}}') FROM {LEASE} l")),
            sql(&format!("SELECT heartbeat_at - started_at >= '0', stale_after - heartbeat_at, sweep_at < stale_after, progress FROM {LEASE} l")),
            sql(&format!("SELECT sched.heartbeat(execution_id, lease_token, '1 microsecond') FROM {LEASE} l")),
            sql(&format!("SELECT sweep_at = stale_after, progress FROM {LEASE} l")),
            sql("SELECT outcome, attempt, max_attempts FROM sched.try_claim('r/job', '2026-01-01', max_attempts => 9, allow_stale_reentry => true)"),
            sql("SELECT count(*) FROM (SELECT sched.enqueue_many('r/job', '{1,2,3}')) AS e"),
            sql("SELECT sched.enqueue('r/job', '4') IS NOT NULL"),
        ];
        run(&["CREATE TEMP TABLE held AS SELECT * FROM sched.claim(max_claims => 3)"]);
        said.push(sql("SELECT attempt, job_name, scope_kind, payload FROM held"));
        run(&["CREATE TEMP TABLE taken AS SELECT execution_id AS id, lease_token AS token FROM held ORDER BY payload DESC LIMIT 2"]);
        said.extend([
            sql("SELECT count(*) FROM sched.finish_success_many(ARRAY(SELECT id FROM taken) || gen_random_uuid(), ARRAY(SELECT token FROM taken) || gen_random_uuid())"),
            sql("SELECT count(*) FROM sched.finish_success_many(ARRAY(SELECT id FROM taken), ARRAY(SELECT token FROM taken))"),
            sql(&format!("SELECT sched.finish_success(execution_id, lease_token, 7, '{{\"r\": 1}}') FROM {LEASE} l WHERE attempt = 2")),
            sql("SELECT job_name, queue, e.payload, status, attempt, max_attempts, allow_stale_reentry, origin, rows_affected, result, progress,
                        e.finished_at IS NULL, e.fence IS NULL, e.runner_id IS NULL, e.lease_token IS NULL, e.started_at IS NULL
                   FROM sched.execution e ORDER BY origin, payload::text"),
            sql(&format!("SELECT (SELECT count(*) FROM {READY} r), (SELECT count(*) FROM {LEASE} l), (SELECT count(DISTINCT fence) FROM sched.execution)")),
        ]);
        said.push(failures());
        said.join("\n")
    }

    /// The same of attempts that fail.
    fn failures() -> String {
        let mut said = Vec::new();
        for (day, job, failure) in [
            (1, "r/job", "'lost', 'the disk is full'"),
            (2, "r/job", "next_retry_at => now() - interval '1 day'"),
            (3, "r/job", "next_retry_at => '2100-01-01'"),
            (4, "r/job", "terminal => true"),
            (5, "r/job", "'cancelled'"),
            (6, "r/once", "'once'"),
            (7, "r/nobodys", "DEFAULT_OF_ALL"),
        ] {
            let failure = failure.replace("DEFAULT_OF_ALL", "'handler_error', ''");
            let plan = format!("2027-01-0{day}");
            let lease =
                format!("FROM {LEASE} l JOIN sched.ledger e ON e.id = l.execution_id WHERE e.plan_time = '{plan}'");
            said.push(sql(&format!("SELECT outcome FROM sched.try_claim('{job}', '{plan}', runner_id => 'r{day}')")));
            said.push(sql(&format!(
                "SELECT sched.heartbeat(execution_id, l.lease_token, progress => '{{\"day\": {day}}}') {lease}"
            )));
            if failure == "'cancelled'" {
                said.push(sql(&format!("SELECT sched.cancel(execution_id) {lease}")));
            }
            said.push(
                fails(
                    &format!("SELECT sched.finish_failure(execution_id, gen_random_uuid(), {failure}) {lease}"),
                    "55000",
                )
                .message,
            );
            said.push(sql(&format!("SELECT sched.finish_failure(execution_id, l.lease_token, {failure}) {lease}")));
        }
        // A second attempt waits as long as the job says for it, and whoever waits for the end hears of the last.
        run(&[
            "UPDATE sched.ledger SET awaited = true, schedule_id = 7 WHERE plan_time IN ('2027-01-02', '2027-01-08')",
        ]);
        for plan in ["2027-01-02", "2027-01-08"] {
            let lease =
                format!("FROM {LEASE} l JOIN sched.ledger e ON e.id = l.execution_id WHERE e.plan_time = '{plan}'");
            said.push(sql(&format!("SELECT outcome, attempt FROM sched.try_claim('r/job', '{plan}')")));
            run(&[&format!("UPDATE sched.ledger SET awaited = true, schedule_id = 7 WHERE plan_time = '{plan}'")]);
            run(&[&format!("INSERT INTO sched.awaited SELECT 7, execution_id {lease}")]);
            let terminal = plan.ends_with('8');
            said.push(sql(&format!(
                "SELECT sched.finish_failure(execution_id, l.lease_token, terminal => {terminal}) {lease}"
            )));
        }
        said.extend([
            sql("SELECT plan_time::date, job_name, status, attempt, max_attempts, runner_id, error_code, error_msg, progress, rows_affected, result,
                        CASE WHEN next_retry_at < '2090-01-01' AND next_retry_at > finished_at THEN (next_retry_at - finished_at)::text END,
                        next_retry_at > '2090-01-01', finished_at = updated_at, started_at <= heartbeat_at, fence > 0, lease_token IS NULL
                   FROM sched.ledger WHERE plan_time >= '2027-01-01' ORDER BY plan_time"),
            sql(&format!("SELECT r.route, r.queue, r.priority, r.plan_time::date, r.owner = e.owner FROM {READY} r JOIN sched.ledger e ON e.id = r.execution_id
                  WHERE r.plan_time >= '2027-01-01' ORDER BY r.plan_time")),
            sql(&format!("SELECT r.route, r.queue, r.priority, r.plan_time::date, r.owner = e.owner, r.due_at = e.next_retry_at
                   FROM {DELAYED} r JOIN sched.ledger e ON e.id = r.execution_id ORDER BY r.plan_time")),
            sql(&format!("SELECT count(*) FROM {LEASE} l JOIN sched.ledger e ON e.id = l.execution_id WHERE e.plan_time >= '2027-01-01'")),
            sql("SELECT count(*), (SELECT count(*) FROM sched.awaited) FROM sched.schedule_change WHERE schedule_id = 7 AND terminal_at IS NOT NULL"),
        ]);
        run(&["DELETE FROM sched.schedule_change WHERE schedule_id = 7"]);
        said.join("\n")
    }

    #[pg_test]
    fn where_there_is_more_to_do_the_statements_do_it() {
        alone();
        run(&[
            "SELECT sched.define_job('r/job', max_attempts => 5, priority => 3, retry_backoff => '{5 minutes,7 minutes}')",
            "SELECT sched.define_job('r/once', max_attempts => 1)",
        ]);
        set_fast_path(true);
        let expected = life();
        assert!(expected.contains("won|1|3|{}") && expected.contains("stole|2|9"), "{expected}");
        for failed in [
            "2027-01-01|r/job|FAILED|1|5|r1|lost|the disk is full|{\"day\": 1}|||00:05:00|f|t|t|t|f",
            "2027-01-05|r/job|CANCELLED|1|5|r5|cancelled|",
            "2027-01-06|r/once|FAILED|1|1|r6|once||{\"day\": 6}|||||t|t|t|f",
        ] {
            assert!(expected.contains(failed), "{failed} in {expected}");
        }
        set_fast_path(false);
        assert_eq!(life(), expected, "with sched.fast_path off");
        set_fast_path(true);
        run(&[
            "CREATE TABLE public.r_fired (what text)",
            "CREATE FUNCTION public.r_note() RETURNS trigger LANGUAGE plpgsql AS
             $$BEGIN INSERT INTO public.r_fired VALUES (TG_ARGV[0] || ' ' || TG_OP); RETURN NULL; END$$",
        ]);
        for (rows, table) in [("ledger", "sched.ledger"), ("lease", LEASE_TABLE)] {
            run(&[&format!("CREATE TRIGGER r_note AFTER INSERT OR UPDATE OR DELETE ON {table} FOR EACH ROW EXECUTE FUNCTION public.r_note('{rows}')")]);
            assert!(!row_by_row());
            assert_eq!(life(), expected, "with a trigger on {rows}");
            run(&[&format!("DROP TRIGGER r_note ON {table}")]);
        }
        // The statement says the same by an insert and a delete for each row of ready; its trigger alone is no matter of the ledger.
        run(&[
            &format!("CREATE TRIGGER r_note AFTER INSERT OR DELETE ON {READY_TABLE} FOR EACH ROW EXECUTE FUNCTION public.r_note('ready')"),
        ]);
        assert_eq!(life(), expected, "with a trigger on ready");
        run(&[&format!("DROP TRIGGER r_note ON {READY_TABLE}")]);
        run(&[&format!("CREATE TRIGGER r_note AFTER INSERT ON {DELAYED_TABLE} FOR EACH ROW EXECUTE FUNCTION public.r_note('delayed')")]);
        assert_eq!(life(), expected, "with a trigger on delayed");
        run(&[&format!("DROP TRIGGER r_note ON {DELAYED_TABLE}")]);
        check(
            "SELECT what, count(*) > 0 FROM public.r_fired GROUP BY 1 ORDER BY 1",
            "delayed INSERT|t\nlease DELETE|t\nlease INSERT|t\nlease UPDATE|t\nledger INSERT|t\nledger UPDATE|t\nready DELETE|t\nready INSERT|t",
        );
        run(&[&format!("CREATE RULE r_rule AS ON DELETE TO {LEASE_TABLE} DO ALSO SELECT 1")]);
        assert!(!row_by_row());
        run(&[
            &format!("DROP RULE r_rule ON {LEASE_TABLE}"),
            &format!("ALTER TABLE {LEASE_TABLE} ENABLE ROW LEVEL SECURITY"),
        ]);
        assert!(!row_by_row());
        run(&[&format!("ALTER TABLE {LEASE_TABLE} DISABLE ROW LEVEL SECURITY")]);
        assert!(row_by_row());
        // A column of somebody else's gets its default.
        run(&["ALTER TABLE sched.ledger ADD COLUMN r_note text NOT NULL DEFAULT 'kept'"]);
        assert!(!row_by_row());
        assert_eq!(life(), expected, "with a column");
        check("SELECT DISTINCT r_note FROM sched.ledger", "kept");
    }

    /// With `sched.fast_path` off each of these runs statements of ours; on, none but the caller's own is run.
    #[pg_test]
    fn the_switch_sends_leases_and_claims_to_the_statements() {
        alone();
        run(&["SELECT sched.define_job('r/switched', queue => 'q5')"]);
        let calls = [
            "SELECT sched.try_claim('r/switched', '2026-01-01')",
            BEAT_ALL,
            &format!("SELECT * FROM {LEASE} l, sched.heartbeat_many(ARRAY[l.execution_id], ARRAY[l.lease_token])"),
            FINISH_ALL,
            "SELECT sched.enqueue('r/switched')",
            "SELECT sched.claim('q5')",
            &format!("SELECT * FROM {LEASE} l, sched.finish_success_many(ARRAY[l.execution_id], ARRAY[l.lease_token])"),
        ];
        // What a session asks once.
        set_fast_path(true);
        run(&calls);
        run(&[NO_EXECUTIONS]);
        for (on, statements) in [(true, 1), (false, 2)] {
            set_fast_path(on);
            for call in calls {
                let count = executed(|| run(&[call]));
                assert!(if on { count == statements } else { count >= statements }, "{count} for {call}, on: {on}");
            }
            check(
                "SELECT count(*), bool_and(status = 'SUCCESS') FROM sched.execution WHERE job_name = 'r/switched'",
                "2|t",
            );
            run(&[NO_EXECUTIONS]);
        }
    }

    #[pg_test]
    fn a_batch_finds_its_rows_wherever_they_lie() {
        run(&[
            "SELECT sched.define_job('w/job', queue => 'w')",
            // Their ids rise, the order of claiming falls.
            "SELECT count(*) FROM sched.enqueue_many('w/job', (SELECT array_agg(to_jsonb(i) ORDER BY i) FROM generate_series(1, 3000) AS i),
                    plan_times => (SELECT array_agg('2026-01-01'::timestamptz - i * interval '1 s' ORDER BY i) FROM generate_series(1, 3000) AS i))",
            "CREATE TEMP TABLE held AS SELECT (payload #>> '{}')::int AS n, * FROM sched.claim('w', 2000)",
            "INSERT INTO held SELECT (payload #>> '{}')::int AS n, * FROM sched.claim('w', 1000)",
        ]);
        check(
            &format!(
                "SELECT count(DISTINCT n), bool_and(plan_time = '2026-01-01'::timestamptz - n * interval '1 s'),
                    bool_and(h.lease_token = l.lease_token) FROM held h JOIN {LEASE} l USING (execution_id)"
            ),
            "3000|t|t",
        );
        // Newer versions of some, beside the old one and elsewhere.
        for _ in 0..5 {
            check("SELECT DISTINCT sched.heartbeat(execution_id, lease_token) FROM held WHERE n % 7 < 3", "ok");
        }
        let end = |which: &str, lost: &str| {
            let list = |column: &str| format!("ARRAY(SELECT {column} FROM held WHERE {which} ORDER BY n % 3, n)");
            let (ids, tokens) = (list("execution_id"), list("lease_token"));
            check(&format!("SELECT count(*) FROM sched.finish_success_many({ids}, {tokens})"), lost);
        };
        end("n % 100 = 1", "0");
        end("n BETWEEN 500 AND 700 AND n % 100 <> 1", "0");
        end("n BETWEEN 400 AND 800 AND n % 4 = 0", "51");
        end("n % 100 = 1", "30");
        // Once more than once, with other tokens before and after its own.
        let (zeros, ones) = (uuid::Uuid::nil(), uuid::Uuid::max());
        check(
            &format!(
                "SELECT count(*) FROM held, LATERAL sched.finish_success_many(
                     ARRAY[execution_id, execution_id, execution_id], ARRAY['{ones}', lease_token, '{zeros}']::uuid[]) WHERE n IN (7, 8)"
            ),
            "0",
        );
        end("n NOT IN (7, 8) AND n % 100 <> 1 AND n NOT BETWEEN 400 AND 800", "0");
        check(&format!("SELECT count(*) FROM held JOIN {LEASE} l USING (execution_id) WHERE n % 4 = 0"), "0");
        end("n BETWEEN 400 AND 499 OR n BETWEEN 701 AND 800", "52");
        check(
            "SELECT status, count(*), bool_and(e.lease_token = h.lease_token AND e.fence = h.fence) FROM sched.execution e JOIN held h ON h.execution_id = e.id
              GROUP BY status",
            "SUCCESS|3000|t",
        );
    }

    #[pg_test]
    fn constraints_hold_and_see_no_search_path_of_the_caller() {
        alone();
        run(&[
            "SELECT sched.define_job('r/checked')",
            "SELECT sched.enqueue('r/checked', '1', scope_id => 'bad')",
            "ALTER TABLE sched.ledger ADD CONSTRAINT r_path CHECK (current_setting('search_path') = 'pg_catalog, pg_temp') NOT VALID,
                ADD CONSTRAINT r_scope CHECK (scope_id <> 'bad') NOT VALID",
            &format!("ALTER TABLE {LEASE_TABLE} ADD CONSTRAINT r_runner CHECK (runner_id <> 'bad') NOT VALID"),
            "SET LOCAL search_path = public",
        ]);
        assert!(row_by_row());
        fails("SELECT sched.try_claim('r/checked', '2026-01-01', scope_id => 'bad')", "23514");
        fails("SELECT sched.try_claim('r/checked', '2026-01-01', runner_id => 'bad')", "23514");
        fails("SELECT * FROM sched.claim(runner_id => 'bad')", "23514");
        run(&[&format!("ALTER TABLE {LEASE_TABLE} ALTER progress SET NOT NULL")]);
        assert!(row_by_row());
        fails("SELECT sched.try_claim('r/checked', '2026-01-01')", "23502");
        run(&[&format!("ALTER TABLE {LEASE_TABLE} ALTER progress DROP NOT NULL")]);
        check("SELECT outcome FROM sched.try_claim('r/checked', '2026-01-01')", "won");
        check(FINISH_ALL, "");
        run(&["CREATE TEMP TABLE held AS SELECT * FROM sched.claim()"]);
        fails("SELECT sched.finish_success(execution_id, lease_token) FROM held", "23514");
        check("SELECT sched.heartbeat(execution_id, lease_token) FROM held", "ok");
        check("SELECT current_setting('search_path')", "public");
    }

    #[pg_test]
    fn every_index_is_kept() {
        alone();
        run(&[
            "CREATE FUNCTION public.r_path(name text) RETURNS text IMMUTABLE LANGUAGE plpgsql AS
             $$BEGIN RETURN name || ' ' || current_setting('search_path'); END$$",
            "CREATE INDEX r_expression ON sched.ledger (public.r_path(scope_id)) WHERE origin = 'claim'",
            "CREATE UNIQUE INDEX r_unique ON sched.ledger (job_name, scope_id)",
            "CREATE INDEX r_status ON sched.ledger (status)",
            "SET LOCAL search_path = public",
            "SELECT sched.try_claim('r/index', '2026-01-01', scope_id => i::text) FROM generate_series(1, 50) i",
        ]);
        assert!(row_by_row());
        // Another index that is unique is no matter of who was first: the error is that of an insert.
        fails("SELECT sched.try_claim('r/index', '2026-01-02', scope_id => '1')", "23505");
        run(&[FINISH_ALL]);
        run(&[
            "SET LOCAL enable_seqscan = off",
            "SET LOCAL enable_bitmapscan = off",
            "SET LOCAL search_path = pg_catalog, pg_temp",
        ]);
        check("SELECT count(*) FROM sched.ledger WHERE status = 'SUCCESS'", "50");
        check("SELECT count(*) FROM sched.ledger WHERE status = 'PENDING'", "0");
        check("SELECT scope_id FROM sched.ledger WHERE public.r_path(scope_id) = '7 pg_catalog, pg_temp' AND origin = 'claim'", "7");
        check("SELECT count(*) FROM sched.ledger WHERE job_name = 'r/index' AND scope_id = '7'", "1");
    }

    #[pg_test]
    fn a_read_only_transaction_reads_and_writes_nothing() {
        run(&["SELECT sched.try_claim('r/only', '2026-01-01', stale_timeout => '1 hour')"]);
        attempt("SELECT 1");
        run(&["SET TRANSACTION READ ONLY"]);
        check("SELECT outcome FROM sched.try_claim('r/only', '2026-01-01')", "conflicted");
        for statement in [
            "SELECT sched.try_claim('r/only', '2026-01-02')",
            BEAT_ALL,
            FINISH_ALL,
            "SELECT sched.enqueue_many('r/only', '{1}')",
            "SELECT sched.enqueue('r/only', scope_id => 'drawn')",
        ] {
            fails(statement, "25006");
        }
    }

    /// A queue goes on where somebody deleted an execution and left its entry.
    #[pg_test]
    fn an_entry_without_an_execution_stops_no_queue() {
        alone();
        let by_statements = &format!("CREATE TRIGGER r_note BEFORE UPDATE ON {READY_TABLE} FOR EACH ROW EXECUTE FUNCTION suppress_redundant_updates_trigger()");
        for (left, trigger) in [("1", ""), ("2", by_statements)] {
            run(&[
                "SELECT sched.define_job('r/left', queue => 'q4')",
                "SELECT sched.enqueue_many('r/left', '{1,2,3}')",
                &format!("DELETE FROM sched.ledger WHERE id = (SELECT execution_id FROM {READY} r JOIN sched.ledger USING (plan_time)
                                                      WHERE r.queue = 'q4' AND id = execution_id ORDER BY execution_id LIMIT 1)"),
                trigger,
            ]);
            check("SELECT count(*) FROM sched.claim('q4', 1)", "1");
            check("SELECT count(*) FROM sched.claim('q4', 9)", "1");
            // It stays where it is: what a restore brings may come later.
            check(&format!("SELECT count(*) FROM {READY} r WHERE queue = 'q4'"), left);
        }
    }

    #[pg_test]
    fn what_this_transaction_has_only_locked_is_still_to_be_had() {
        assert!(row_by_row());
        // claim.sql locks as many ready executions and as many stale runs as it might take, and takes the best of both.
        run(&[
            "SELECT sched.define_job('r/high', queue => 'q3', priority => 9, max_attempts => 5),
                    sched.define_job('r/low', queue => 'q3')",
            "SELECT sched.enqueue('r/high', plan_time => '2026-01-01', scope_kind => 'k', scope_id => 'i')",
            "SELECT sched.claim('q3', 1, stale_timeout => '1 second')",
            "SELECT sched.enqueue_many('r/low', '{1,2}')",
        ]);
        time_passes("1 minute");
        for expected in ["r/high", "r/low", "r/low", ""] {
            check(
                "SELECT coalesce(string_agg(job_name, ','), '') FROM sched.claim('q3', 1, stale_timeout => '1 hour')",
                expected,
            );
        }
        // The other way round: a stale run that was locked and not taken.
        run(&["SELECT sched.define_job('r/highest', queue => 'q3', priority => 10), sched.enqueue('r/highest')"]);
        time_passes("2 hours");
        check("SELECT job_name FROM sched.claim('q3', 1, stale_timeout => '10 hours')", "r/highest");
        let plan_time = sql("SELECT plan_time FROM sched.execution WHERE job_name = 'r/high'");
        check(&format!("SELECT outcome FROM sched.try_claim('r/high', '{plan_time}', 'k', 'i')"), "stole");
    }

    #[pg_test]
    fn an_object_of_texts_is_stored_as_the_server_stores_it() {
        let many: Vec<(String, String)> = (0..40).map(|number| (format!("k{number}"), "v".repeat(number))).collect();
        let many: Vec<(&str, &str)> = many.iter().map(|(name, text)| (name.as_str(), text.as_str())).collect();
        for pairs in [
            &[][..],
            &[("job", "a \"quoted\" \\ text\n")],
            &[("queue", "default"), ("job", "nightly"), ("le", "+Inf")],
            &[("b", ""), ("a", "\u{e9}\u{1f600}"), ("aa", "x")],
            &many[..15],
            &many,
        ] {
            let text: serde_json::Map<_, _> =
                pairs.iter().map(|(name, text)| ((*name).to_owned(), (*text).into())).collect();
            let parsed = Jsonb::parse(&serde_json::Value::Object(text).to_string());
            assert_eq!(Jsonb::of_texts(pairs), parsed, "{pairs:?}");
        }
    }
}
