//! alter_job, and the view sched.jobs.

use pgrx::prelude::*;

#[pg_schema]
#[allow(clippy::unwrap_used, reason = "test code")]
mod tests {
    use pgrx::prelude::*;

    use crate::test_support::tables::*;
    use crate::test_support::{attempt, check, granting, refused, run, set_fast_path, sql};

    const JOBS: &str = "SELECT kind, command, queue, max_attempts, retry_backoff, run_timeout, stale_timeout, allow_stale_reentry, priority,
                               own_transactions, settings FROM sched.jobs WHERE job_name = 'a/job'";

    /// Arguments that differ from every default, and the row of them.
    const ALL: &str =
        "'sql', 'VACUUM', 'q', 7, '{1 hour}', '1 day', '2 hours', false, -5, true, '{\"work_mem\": \"1MB\"}'";
    const SHOWN: &str = "sql|VACUUM|q|7|{01:00:00}|1 day|02:00:00|f|-5|t|{\"work_mem\": \"1MB\"}";

    #[pg_test]
    fn the_view_shows_what_was_defined() {
        run(&[&format!("SELECT sched.define_job('a/job', {ALL})")]);
        check(JOBS, SHOWN);
        check(
            "SELECT owner = current_user::regrole, pg_typeof(owner), created_at <= updated_at, updated_at <= clock_timestamp() FROM sched.jobs",
            "t|regrole|t|t",
        );
        // All arguments of define_job, in their order.
        check(
            "SELECT array_agg(attname ORDER BY attnum) FILTER (WHERE attnum <= 12) =
                    (SELECT proargnames::name[] FROM pg_proc WHERE oid = 'sched.define_job'::regproc)
               FROM pg_attribute WHERE attrelid = 'sched.jobs'::regclass",
            "t",
        );
        // alter_job has the same, then reset and owner.
        check(
            "SELECT a.proargnames = d.proargnames || 'reset'::text || 'owner'::text FROM pg_proc a, pg_proc d
              WHERE a.oid = 'sched.alter_job'::regproc AND d.oid = 'sched.define_job'::regproc",
            "t",
        );
    }

    #[pg_test]
    fn only_what_is_said_changes() {
        run(&[&format!("SELECT sched.define_job('a/job', {ALL})")]);
        let columns = [
            "kind",
            "command",
            "queue",
            "max_attempts",
            "retry_backoff",
            "run_timeout",
            "stale_timeout",
            "allow_stale_reentry",
            "priority",
            "own_transactions",
            "settings",
        ];
        let was: Vec<&str> = SHOWN.split('|').collect();
        run(&["SELECT sched.alter_job('a/job')"]);
        check(JOBS, SHOWN);
        for (argument, value, shown) in [
            ("kind", "'sql'", "sql"),
            ("command", "'SELECT 2'", "SELECT 2"),
            ("queue", "'r'", "r"),
            ("max_attempts", "8", "8"),
            ("retry_backoff", "'{}'", "{}"),
            ("retry_backoff", "'{1 s,2 s}'", "{00:00:01,00:00:02}"),
            ("run_timeout", "'1 hour'", "01:00:00"),
            ("stale_timeout", "'1 minute'", "00:01:00"),
            ("allow_stale_reentry", "true", "t"),
            ("priority", "0", "0"),
            ("own_transactions", "false", "f"),
            ("settings", "'{}'", "{}"),
        ] {
            run(&[
                &format!("SELECT sched.define_job('a/job', {ALL})"),
                &format!("SELECT sched.alter_job('a/job', {argument} => {value})"),
            ]);
            let now = columns.iter().zip(&was).map(|(column, was)| if *column == argument { shown } else { *was });
            check(JOBS, &now.collect::<Vec<_>>().join("|"));
        }
        check("SELECT updated_at > created_at FROM sched.jobs", "t");
    }

    #[pg_test]
    fn reset_goes_back_to_the_default_of_the_kind() {
        const EACH: &str = "kind,command,queue,max_attempts,retry_backoff,run_timeout,stale_timeout,allow_stale_reentry,priority,own_transactions,settings";
        run(&[
            &format!("SELECT sched.define_job('a/job', {ALL})"),
            &format!("SELECT sched.alter_job('a/job', reset => '{{{EACH}}}')"),
        ]);
        check(JOBS, "pull||default|3|{00:00:10,00:01:00}|||t|0|f|{}");
        run(&[
            &format!("SELECT sched.define_job('a/job', {ALL})"),
            "SELECT sched.alter_job('a/job', reset => '{max_attempts,retry_backoff,queue,queue}', priority => 9)",
        ]);
        check(JOBS, "sql|VACUUM|default|1|{}|1 day|02:00:00|f|9|t|{\"work_mem\": \"1MB\"}");
        // Of the kind that it is given.
        run(&["SELECT sched.alter_job('a/job', 'pull', reset => '{max_attempts,retry_backoff,run_timeout,own_transactions,settings}')"]);
        check("SELECT kind, max_attempts, retry_backoff FROM sched.jobs", "pull|3|{00:00:10,00:01:00}");
        for (arguments, sqlstate, message) in [
            ("reset => '{nothing}'", "22023", "cannot reset \"nothing\""),
            ("reset => '{job_name}'", "22023", "cannot reset \"job_name\""),
            ("reset => '{queue,\"\"}'", "22023", "cannot reset \"\""),
            ("reset => '{Queue}'", "22023", "cannot reset \"Queue\""),
            ("reset => '{queue}', queue => 'r'", "22023", "queue is both given and reset"),
            ("reset => '{settings}', settings => '{}'", "22023", "settings is both given and reset"),
            ("reset => '{NULL}'", "22004", "an element of reset must not be NULL"),
        ] {
            let refusal = refused(&format!("SELECT sched.alter_job('a/job', {arguments})"), sqlstate);
            assert_eq!(refusal.message, message);
            if message.starts_with("cannot") {
                assert_eq!(refusal.hint, format!("Name some of {}.", EACH.replace(',', ", ")));
            }
        }
        run(&["SELECT sched.alter_job('a/job', reset => NULL)"]);
    }

    /// What the two calls would have refused of one definition, the second refuses.
    #[pg_test]
    fn what_comes_of_it_is_checked_as_a_whole() {
        run(&["SELECT sched.define_job('a/job', run_timeout => '4 minutes')"]);
        let before = sql(JOBS);
        for (arguments, sqlstate) in [
            ("max_attempts => 0", "22023"),
            ("kind => 'shell'", "22023"),
            ("kind => 'sql'", "22023"),
            ("kind => 'notify'", "22023"),
            ("kind => 'sql', command => 'SELECT 1;;x'", "42601"),
            ("kind => 'sql', command => 'BEGIN'", "0A000"),
            ("queue => repeat('q', 58)", "22023"),
            ("retry_backoff => '{-1s}'", "22023"),
            ("retry_backoff => '{NULL}'", "22004"),
            ("stale_timeout => '4 minutes'", "22023"),
            ("run_timeout => '5 minutes'", "22023"),
            ("own_transactions => true", "22023"),
            ("settings => '{\"work_mem\": \"1MB\"}'", "22023"),
            ("kind => 'sql', command => 'SELECT 1', settings => '{\"no_such_setting\": 1}'", "42704"),
        ] {
            refused(&format!("SELECT sched.alter_job('a/job', {arguments})"), sqlstate);
        }
        check(JOBS, &before);
        run(&["SELECT sched.define_job('a/job', 'sql', 'SELECT 1', own_transactions => true)"]);
        let refusal = refused("SELECT sched.alter_job('a/job', 'pull')", "22023");
        assert_eq!(refusal.message, "own_transactions is not for a job of kind \"pull\"");
        let refusal = refused("SELECT sched.alter_job('a/none', max_attempts => 2)", "42704");
        assert_eq!(refusal.message, "job \"a/none\" does not exist");
    }

    /// The rights that count are the caller's, not those of the extension's owner.
    #[pg_test]
    fn settings_are_checked_as_the_caller() {
        run(&["CREATE ROLE a_plain", "SELECT sched.grant_use('a_plain')"]);
        attempt("SELECT 1");
        run(&["SET LOCAL ROLE a_plain", "SELECT sched.define_job('a/job', 'sql', 'SELECT 1')"]);
        let of_superusers =
            attempt("SELECT sched.alter_job('a/job', settings => '{\"dynamic_library_path\": \"/tmp\"}')");
        run(&["SELECT sched.alter_job('a/job', settings => '{\"work_mem\": \"1MB\"}')", "RESET ROLE"]);
        assert_eq!(of_superusers.unwrap().sqlstate, "42501");
        check("SELECT settings FROM sched.jobs WHERE job_name = 'a/job'", "{\"work_mem\": \"1MB\"}");
    }

    /// As define_job does: limits are stored with an execution, and where it waits goes with the kind of its job.
    #[pg_test]
    fn what_exists_already_is_treated_as_when_a_job_is_defined_anew() {
        for fast_path in [true, false] {
            set_fast_path(fast_path);
            let place = &format!("SELECT r.route, r.queue, e.max_attempts, e.priority FROM {READY} r JOIN sched.ledger e ON e.id = r.execution_id WHERE e.job_name = 'a/job'");
            run(&["SELECT sched.define_job('a/job', queue => 'q')", "SELECT sched.enqueue('a/job')"]);
            run(&["SELECT sched.alter_job('a/job', queue => 'r', max_attempts => 9, priority => 2)"]);
            check(place, "worker|q|3|0");
            run(&["SELECT sched.alter_job('a/job', 'sql', 'SELECT 1')"]);
            assert!(sql(place).starts_with("server|r|"), "{}", sql(place));
            run(&["SELECT sched.alter_job('a/job', reset => '{kind,command}')"]);
            check(place, "worker|r|3|0");
            run(&["SELECT sched.enqueue('a/job')"]);
            check("SELECT count(*) FROM sched.claim('r', 9) c JOIN sched.ledger e ON e.id = c.execution_id WHERE e.priority = 2", "1");
            run(&[&format!("DELETE FROM {LEASE_TABLE}"), "DELETE FROM sched.ledger", "SELECT sched.drop_job('a/job')"]);
        }
        set_fast_path(true);
    }

    /// A schedule that was parked because its job could not be used is looked at again.
    #[pg_test]
    fn schedules_of_the_job_are_looked_at_again() {
        run(&[
            "SELECT sched.define_job('a/job', 'notify', 'channel')",
            "SELECT sched.create_schedule('a/schedule', '@yearly', 'a/job')",
            "SELECT sched.dispatch_due()",
            &format!("UPDATE {TIMER_TABLE} SET parked = true"),
            "SELECT sched.alter_job('a/job', command => 'other')",
        ]);
        check("SELECT count(*) FROM sched.schedule_change", "1");
    }

    /// Since 16 a grant says whether a member may become the role: without that it does not say what runs as the role either.
    #[pg_test]
    fn a_member_that_may_not_become_the_owner_changes_no_job() {
        if cfg!(feature = "pg15") {
            return;
        }
        granting();
        run(&[
            "CREATE ROLE a_owner",
            "CREATE ROLE a_member",
            "CREATE ROLE a_super SUPERUSER",
            "GRANT a_owner TO a_member WITH INHERIT TRUE, SET FALSE",
            "GRANT a_owner TO a_super WITH INHERIT TRUE, SET FALSE",
            "SELECT sched.grant_use('a_owner'), sched.grant_use('a_member')",
            "SET LOCAL ROLE a_owner",
            "SELECT sched.define_job('a/job', 'sql', 'SELECT 1'), sched.schedule_sql('a/nightly', '@daily', 'SELECT 1')",
            "RESET ROLE",
        ]);
        let writes = [
            "sched.define_job('a/job', 'sql', 'SELECT 2')",
            "sched.alter_job('a/job', command => 'SELECT 2')",
            "sched.alter_job('a/job', own_transactions => true)",
            "sched.alter_job('a/job', kind => 'pull', reset => '{command,own_transactions}')",
            "sched.schedule_sql('a/nightly', '@daily', 'SELECT 2')",
        ];
        for role in ["a_member", "a_super"] {
            run(&[&format!("SET LOCAL ROLE {role}")]);
            attempt("SELECT 1");
            for write in writes {
                let refusal = attempt(&format!("SELECT {write}")).unwrap();
                assert_eq!(refusal.sqlstate, "42501", "{role}: {write}: {}", refusal.message);
                assert!(refusal.hint.contains("SET ROLE"), "{role}: {}", refusal.hint);
            }
            // What it inherits is its own to do.
            run(&["SELECT sched.enqueue('a/job'), sched.pause('a/nightly'), sched.resume('a/nightly')"]);
            check("SELECT command FROM sched.jobs WHERE job_name = 'a/job'", "SELECT 1");
            run(&["RESET ROLE"]);
        }
        for role in ["a_member", "a_super"] {
            run(&[&format!("GRANT a_owner TO {role} WITH SET TRUE"), &format!("SET LOCAL ROLE {role}")]);
            for write in writes {
                run(&[&format!("SELECT {write}")]);
            }
            run(&["RESET ROLE"]);
        }
    }

    #[pg_test]
    fn a_job_with_a_payload_that_notify_cannot_carry_becomes_none_of_that_kind() {
        run(&[
            "SELECT sched.define_job('a/long')",
            "SELECT sched.create_schedule('a/fits', '@daily', 'a/long', payload => to_jsonb(repeat('x', 7997)))",
            "SELECT sched.create_schedule('a/long', '@daily', 'a/long', payload => to_jsonb(repeat('x', 7998)))",
        ]);
        for change in
            ["sched.alter_job('a/long', kind => 'notify', command => 'c')", "sched.define_job('a/long', 'notify', 'c')"]
        {
            let refusal = attempt(&format!("SELECT {change}")).unwrap();
            assert_eq!(refusal.sqlstate, "22023", "{change}: {}", refusal.message);
            assert!(
                refusal.message.contains("schedule \"a/long\"") && refusal.message.contains("8000 bytes"),
                "{}",
                refusal.message
            );
        }
        run(&["SELECT sched.drop_schedule('a/long'), sched.define_job('a/long', 'notify', 'c')"]);
    }
}
