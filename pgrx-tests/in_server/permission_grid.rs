//! Role × function × row: who may do what with executions, jobs and schedules of whom, for every function and view there is.

use pgrx::prelude::*;

#[pg_schema]
#[allow(clippy::unwrap_used, reason = "test code")]
mod tests {
    use pgrx::prelude::*;
    use std::collections::BTreeSet;

    use crate::test_support::tables::*;
    use crate::test_support::{alone, check, granting, quote, run, sql, views};

    /// The columns of the grid. `none` is the superuser that runs the test; a member has the owner's rights; another uses the
    /// scheduler for itself; a monitor only looks; a stranger was granted nothing.
    const ROLES: [&str; 6] = ["none", "owner", "member", "other", "monitor", "stranger"];

    /// How a row of the grid ends for each of [`ROLES`].
    #[derive(Clone, Copy)]
    enum Answer {
        /// Who may act for the owner gets this; another `42501`.
        Own(&'static str),
        /// The same, but for a superuser, who is no member by a grant: what is written there runs as the owner.
        Runs(&'static str),
        /// The same, but another gets something else than an error: nothing to see or to take.
        Skip(&'static str, &'static str),
        /// Everybody who was granted use gets this.
        All(&'static str),
        /// Monitors get it as well.
        Any(&'static str),
        /// Superusers and the extension's owner only.
        Super(&'static str),
        /// Who may act for the owner and monitors get this; another `42501`.
        Read(&'static str),
        /// For who may read, and for others as if there were none.
        Shown(&'static str),
        /// The same of rows: others get none.
        Seen(&'static str),
    }
    use Answer::{All, Any, Own, Read, Runs, Seen, Shown, Skip, Super};

    impl Answer {
        fn of(self, role: &str) -> &'static str {
            let denied = "42501";
            match (self, role) {
                (Any(answer), "none" | "owner" | "member" | "other" | "monitor") => answer,
                (Super(answer) | Own(answer) | Skip(answer, _) | All(answer) | Read(answer), "none") => answer,
                (Own(answer) | Runs(answer) | Skip(answer, _) | All(answer) | Read(answer), "owner" | "member") => {
                    answer
                }
                (Skip(_, answer) | All(answer), "other") => answer,
                (Read(answer), "monitor") => answer,
                (Shown(answer) | Seen(answer), "none" | "owner" | "member" | "monitor") => answer,
                (Shown(_), "other") => "42704",
                (Seen(_), "other") => "empty",
                (Super(_) | Own(_) | Runs(_) | Skip(..) | All(_) | Any(_) | Read(_) | Shown(_) | Seen(_), _) => denied,
            }
        }
    }

    /// Function, arguments, answer. A word in braces is an execution's id, or id and token.
    const FUNCTIONS: &[(&str, &str, Answer)] = &include!("permission_functions.in");

    /// Called by the server only, or at CREATE EXTENSION: not even a superuser gets an answer.
    const OTHERS: [&str; 5] =
        ["guard_taken_over", "request_dispatcher", "schedule_before_update", "schedule_changed", "table_changed"];

    /// Roles with a prefix, as tests run side by side, and what belongs to the owner. All but one execution are its own.
    fn world(prefix: &str) {
        for role in ROLES.iter().skip(1).chain(&["nobody"]) {
            run(&[&format!("CREATE ROLE {prefix}_{role}")]);
        }
        run(&[
            &format!("GRANT {prefix}_owner TO {prefix}_member"),
            &format!("SELECT sched.grant_use('{prefix}_owner'), sched.grant_use('{prefix}_member'), sched.grant_use('{prefix}_other')"),
            &format!("SELECT sched.grant_monitor('{prefix}_monitor')"),
            &format!("SET LOCAL ROLE {prefix}_owner"),
            "SELECT sched.define_job('g/job', queue => 'g', max_attempts => 3, retry_backoff => '{1 hour}'), sched.define_job('g/idle')",
            "SELECT sched.create_schedule('g/schedule', 'at 2027-01-01', 'g/job')",
            "SELECT sched.schedule_sql('g/sql', 'never', 'SELECT 1')",
            "SELECT sched.enqueue('g/job', '{\"secret\": 1}', '2026-01-01', 'g', 'pending')",
            "SELECT sched.enqueue('g/undefined', '{}', '2026-01-01', 'g', 'pending')",
            "SELECT sched.try_claim('g/job', '2026-01-01', 'g', 'running')",
            "SELECT sched.heartbeat(id, lease_token, progress => '{\"secret\": 2}') FROM sched.execution WHERE scope_id = 'running'",
            "SELECT sched.try_claim('g/job', '2026-01-01', 'g', 'stale', stale_timeout => '1 microsecond')",
            "SELECT sched.finish_failure(execution_id, lease_token, 'code', 'secret') FROM sched.try_claim('g/job', '2026-01-01', 'g', 'retry')",
            "SELECT sched.finish_success(execution_id, lease_token, 1, '{\"secret\": 3}') FROM sched.try_claim('g/job', '2026-01-01', 'g', 'done')",
            "RESET ROLE",
            "INSERT INTO sched.alert (kind, schedule_id, schedule_name, owner, since, message, detail, opened_at) SELECT 'failed', schedule_id, schedule_name, owner, now(), 'message', 'secret', now() FROM sched.schedule JOIN sched.job USING (job_name) WHERE schedule_name = 'g/schedule'",
            "SELECT sched.define_job('g/super'), sched.try_claim('g/super', '2026-01-01', 'g', 'super')",
            // What an attempt says, with everything that it did undone.
            &format!(
                "CREATE FUNCTION pg_temp.{prefix}_as(who text, statement text) RETURNS text LANGUAGE plpgsql AS $$
                 DECLARE answer text; many bigint;
                 BEGIN
                     PERFORM set_config('role', who, true);
                     EXECUTE statement INTO answer;
                     GET DIAGNOSTICS many = ROW_COUNT;
                     RAISE EXCEPTION USING ERRCODE = 'ZZ000', MESSAGE = CASE WHEN many = 0 THEN 'empty' ELSE COALESCE(answer, '') END;
                 EXCEPTION WHEN OTHERS THEN
                     RETURN CASE SQLSTATE WHEN 'ZZ000' THEN SQLERRM ELSE SQLSTATE END;
                 END $$"
            ),
        ]);
    }

    fn as_role(prefix: &str, role: &str, statement: &str) -> String {
        let who = if role == "none" { role.to_owned() } else { format!("{prefix}_{role}") };
        sql(&format!("SELECT pg_temp.{prefix}_as('{who}', {})", quote(statement)))
    }

    /// An answer that differs from run to run, by what it looks like.
    fn kind(answer: &str, wanted: &str) -> String {
        let fits = match wanted {
            "number" => answer.parse::<i64>().is_ok() && answer != "42501",
            "uuid" => answer.len() == 36,
            "time" => answer.starts_with("20"),
            "page" => answer.starts_with("<!DOCTYPE html>"),
            "metric" => answer.starts_with("sched_"),
            "openmetrics" => answer.starts_with("# TYPE sched_") && answer.ends_with("# EOF\n"),
            "text" => answer.starts_with("g"),
            "script" => answer.starts_with("-- Made by sched.router_sql"),
            _ => answer == wanted,
        };
        if fits {
            wanted.to_owned()
        } else {
            answer.to_owned()
        }
    }

    #[pg_test]
    fn permission_grid_of_functions() {
        granting();
        world("gf");
        let one = |query: &str| sql(query);
        let held = |scope: &str| {
            one(&format!("SELECT quote_literal(id) || ', ' || quote_literal(lease_token) FROM sched.execution WHERE scope_id = '{scope}'"))
        };
        let id = |scope: &str| {
            one(&format!(
                "SELECT quote_literal(id) FROM sched.execution WHERE scope_id = '{scope}' AND job_name = 'g/job'"
            ))
        };
        let running = held("running");
        let (first, second) = running.split_once(", ").unwrap();
        let internal = sql("SELECT proname FROM pg_proc WHERE pronamespace = 'sched_internal'::regnamespace");
        let schema =
            |function: &str| if internal.lines().any(|name| name == function) { "sched_internal" } else { "sched" };
        // Whom somebody lets into the schema by hand is told no more.
        run(&["GRANT USAGE ON SCHEMA sched_internal TO gf_owner, gf_member, gf_other, gf_monitor, gf_stranger"]);
        for &(function, arguments, answer) in FUNCTIONS {
            let arguments = arguments
                .replace("{running}", &running)
                .replace("{super}", &held("super"))
                .replace("{stale}", &held("stale"))
                .replace("{stale id}", &id("stale"))
                .replace("{lost}", &format!("{first}, gen_random_uuid()"))
                .replace("{arrays}", &format!("ARRAY[{first}]::uuid[], ARRAY[{second}]::uuid[]"))
                .replace("{pending}", &id("pending"))
                .replace("{retry}", &id("retry"))
                .replace("{running id}", first)
                .replace("{done}", &id("done"))
                .replace("{alert}", &one("SELECT alert_id FROM sched.alerts WHERE schedule_name = 'g/schedule'"))
                .replace("g_nobody", "gf_nobody");
            let statement = format!("SELECT * FROM {}.{function}({arguments})", schema(function));
            for role in ROLES {
                let wanted = answer.of(role);
                let found = as_role("gf", role, &statement);
                assert_eq!(kind(&found, wanted), wanted, "{role}: {statement}");
            }
        }
        for function in OTHERS {
            for role in &ROLES[1..] {
                let statement = format!("SELECT {}.{function}()", schema(function));
                assert_eq!(as_role("gf", role, &statement), "42501", "{role}: {function}");
            }
        }
        let known: BTreeSet<_> = FUNCTIONS.iter().map(|(function, ..)| *function).chain(OTHERS).collect();
        let all = sql("SELECT DISTINCT proname::text COLLATE \"C\" FROM pg_proc WHERE pronamespace IN ('sched'::regnamespace, 'sched_internal'::regnamespace) ORDER BY 1");
        assert_eq!(
            all.lines().collect::<BTreeSet<_>>(),
            known,
            "a function has no row in this grid, or a row no function"
        );
    }

    /// View, columns that a monitor may not see, and how many rows the owner has in it.
    const VIEWS: [(&str, &[&str], i64); 12] = [
        ("execution", &["payload", "result", "progress", "error_msg", "lease_token"], 6),
        ("running", &["progress"], 2),
        ("failed", &["error_msg"], 1),
        ("history", &["result", "error_msg"], 1),
        ("jobs", &["command", "settings"], 3),
        ("schedules", &["last_error"], 2),
        ("skipped", &[], 1),
        ("queues", &[], 2),
        ("late", &[], 1),
        ("alerts", &[], 1),
        ("last_runs", &["result", "error_msg"], 1),
        ("waiting", &[], 2),
    ];

    #[pg_test]
    fn permission_grid_of_views() {
        granting();
        world("gv");
        run(&[
            "SELECT sched.dispatch_due()",
            &format!("UPDATE {TIMER_TABLE} SET last_error = 'secret', error_count = 1"),
        ]);
        run(&[&format!("WITH k AS (INSERT INTO sched.skip SELECT schedule_id, defined_at, '2026-01-01', '2026-01-02', 2, 'missed' FROM sched.schedule WHERE schedule_name = 'g/schedule'), s AS (UPDATE sched.schedule SET max_lateness = '1 hour' WHERE schedule_name = 'g/schedule' RETURNING *) UPDATE {TIMER_TABLE} t SET version = s.version, next_plan_time = now() - interval '1 day' FROM s WHERE s.schedule_id = t.schedule_id")]);
        for (view, secrets, rows) in VIEWS {
            if view == "last_runs" {
                // What has ended is a run of the schedule.
                run(&["UPDATE sched.ledger e SET schedule_id = s.schedule_id, schedule_name = s.schedule_name, key = s.key FROM sched.schedule s WHERE s.schedule_name = 'g/schedule' AND e.id IN (SELECT h.id FROM sched.history h)"]);
            }
            let of_super = if matches!(view, "execution" | "running" | "jobs") { 1 } else { 0 };
            for role in ROLES {
                let count = as_role("gv", role, &format!("SELECT count(*) FROM sched.{view}"));
                let wanted = match role {
                    "owner" | "member" => rows.to_string(),
                    "other" => "0".to_owned(),
                    "stranger" => "42501".to_owned(),
                    _ => (rows + of_super).to_string(),
                };
                assert_eq!(count, wanted, "{role}: {view}");
            }
            for secret in secrets {
                for role in ["none", "owner", "member", "monitor"] {
                    let shown = as_role("gv", role, &format!("SELECT bool_or({secret} IS NOT NULL) FROM sched.{view}"));
                    // What has ended for good has no message here: the one failure will be retried.
                    let wanted =
                        role != "monitor" && !(matches!(view, "history" | "last_runs") && *secret == "error_msg");
                    assert_eq!(shown, if wanted { "true" } else { "false" }, "{role}: {view}.{secret}");
                }
            }
            // The function says what the view does.
            for role in ROLES.into_iter().filter(|role| view == "history" && *role != "stranger") {
                let of_view = as_role("gv", role, "SELECT array_agg(h::text ORDER BY h.id DESC) FROM sched.history h");
                let of_function = as_role("gv", role, "SELECT array_agg(r::text) FROM sched.recent(max_rows => 100) r");
                assert_eq!(of_function, of_view, "{role}");
            }
            // Each column that may hold what users wrote is a secret or named here.
            let plain = "id job_name scope_kind scope_id plan_time queue priority status attempt max_attempts runner_id fence heartbeat_at \
                stale_after started_at finished_at duration_ms rows_affected error_code next_retry_at allow_stale_reentry origin \
                schedule_name created_at updated_at age time_to_stale cancel_requested retryable clock time_zone enabled ownership state \
                next_plan_time next_fire_at last_plan_time last_fired_at error_count \
                plan_from plan_to count reason pid run_at run_until paused ready delayed retrying running oldest_ready_at \
                kind retry_backoff run_timeout stale_timeout own_transactions owner \
                max_lateness max_duration expect_success_within alert_job execution_id late_by alert_id since message resolved_at acknowledged_until \
                position waits_since group_name";
            check(
                &format!(
                    "SELECT attname FROM pg_attribute WHERE attrelid = 'sched.{view}'::regclass AND attnum > 0
                        AND attname <> ALL (string_to_array('{plain} {}', ' ')) AND attname <> ''",
                    secrets.join(" ")
                ),
                "",
            );
        }
        check(
            "SELECT count(*) FROM pg_class WHERE relnamespace IN ('sched'::regnamespace, 'sched_internal'::regnamespace) AND relkind IN ('v', 'm')",
            &VIEWS.len().to_string(),
        );
    }

    /// Nobody has a right on what lies behind the views; no row of it can be locked, either.
    #[pg_test]
    fn permission_grid_of_tables() {
        granting();
        alone();
        world("gt");
        let tables = sql("SELECT relname FROM pg_class WHERE relnamespace = 'sched'::regnamespace AND relkind = 'r' AND relname <> 'monitor'");
        assert!(tables.lines().count() >= 9);
        for table in tables.lines() {
            for role in &ROLES[1..] {
                for statement in [
                    format!("SELECT * FROM sched.{table} FOR UPDATE"),
                    format!("SELECT * FROM sched.{table}"),
                    format!("DELETE FROM sched.{table}"),
                    format!("INSERT INTO sched.{table} DEFAULT VALUES"),
                    format!("TRUNCATE sched.{table}"),
                    format!("LOCK TABLE sched.{table} IN ACCESS SHARE MODE"),
                    format!("CREATE TRIGGER t AFTER INSERT ON sched.{table} EXECUTE FUNCTION suppress_redundant_updates_trigger()"),
                    format!("ALTER TABLE sched.{table} ADD COLUMN c int"),
                ] {
                    assert_eq!(as_role("gt", role, &statement), "42501", "{role}: {statement}");
                }
            }
        }
        for view in views() {
            for role in &ROLES[1..] {
                for statement in [format!("DELETE FROM sched.{view}"), format!("SELECT * FROM sched.{view} FOR UPDATE")]
                {
                    let found = as_role("gt", role, &statement);
                    // 16 finds that a row of an outer join cannot be locked before it asks for the right.
                    assert!(["42501", "55000", "0A000"].contains(&found.as_str()), "{role}: {statement}: {found}");
                }
            }
        }
        for role in &ROLES[1..] {
            for statement in [
                "SELECT nextval('sched.fence')",
                "SELECT setval('sched.fence', 1)",
                "SELECT last_value FROM sched.fence",
            ] {
                assert_eq!(as_role("gt", role, statement), "42501", "{role}: {statement}");
            }
        }
    }
}
