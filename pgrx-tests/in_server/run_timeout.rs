//! What a claim says of the job's limits, and what becomes of a pull job's run that lasts too long.

use pgrx::prelude::*;

#[pg_schema]
mod tests {
    use pgrx::prelude::*;

    use crate::test_support::{check, run, set_fast_path, sql, time_passes};

    fn both_ways(body: impl Fn(&str)) {
        for fast_path in [true, false] {
            set_fast_path(fast_path);
            body(if fast_path { "rows" } else { "statements" });
        }
        set_fast_path(true);
    }

    /// Whether the lease of the one run of this job says so long, after so much of it.
    fn lasts(job: &str) -> String {
        sql(&format!("SELECT run_until - started_at FROM sched.running WHERE job_name = '{job}'"))
    }

    #[pg_test]
    fn claims_tell_the_limits_of_job_and_execution() {
        both_ways(|way| {
            let job = format!("rt/{way}");
            let told = "max_attempts, run_timeout, queue";
            let claim = format!("SELECT {told} FROM sched.claim('{job} q')");
            let try_claim = |key: &str| format!("SELECT outcome, {told} FROM sched.try_claim('{job}', {key})");
            run(&[
                &format!("SELECT sched.define_job('{job}', queue => '{job} q', max_attempts => 3, run_timeout => '2 minutes', retry_backoff => '{{0 s}}')"),
                &format!("SELECT sched.enqueue('{job}')"),
            ]);
            check(&claim, &format!("3|00:02:00|{job} q"));
            assert_eq!(lasts(&job), "00:02:00");
            // New, waiting, stale; and refused.
            check(&try_claim("'2026-01-01', stale_timeout => '1 hour'"), &format!("won|3|00:02:00|{job} q"));
            check(&try_claim("'2026-01-01'"), "conflicted|||");
            run(&[&format!("SELECT sched.finish_failure(id, lease_token, next_retry_at => '2001-01-01') FROM sched.execution WHERE job_name = '{job}' AND scope_kind = 'global'")]);
            check(&try_claim("'2026-01-01', max_attempts => 5"), &format!("stole|5|00:02:00|{job} q"));
            time_passes("2 hours");
            let plan = sql(&format!("SELECT quote_literal(plan_time) FROM sched.execution WHERE job_name = '{job}' AND scope_kind = 'global'"));
            run(&[&format!("SELECT sched.define_job('{job}', queue => '{job} other', max_attempts => 9, run_timeout => '1 minute')")]);
            check(&try_claim(&plan), &format!("stole|5|00:01:00|{job} q"));
            check(
                &format!("SELECT DISTINCT run_until - started_at FROM sched.running WHERE job_name = '{job}' AND scope_kind = 'global'"),
                "00:01:00",
            );
            check(&claim, &format!("3|00:01:00|{job} q"));
            // Never defined.
            check(
                &format!("SELECT outcome, {told} FROM sched.try_claim('{job} undefined', '2026-01-01')"),
                "won|1||default",
            );
            assert_eq!(lasts(&format!("{job} undefined")), "");
        });
    }

    #[pg_test]
    fn heartbeats_ask_to_stop_a_run_that_lasts_too_long() {
        both_ways(|way| {
            let job = format!("rt/beat {way}");
            let of_job = format!("FROM sched.execution WHERE job_name = '{job}'");
            let beat = format!("SELECT sched.heartbeat(id, lease_token) {of_job}");
            run(&[
                &format!("SELECT sched.define_job('{job}', queue => '{job}', max_attempts => 2, run_timeout => '2 minutes', stale_timeout => '1 hour', retry_backoff => '{{1 hour}}')"),
                &format!("SELECT sched.enqueue('{job}')"),
                &format!("SELECT sched.claim('{job}')"),
            ]);
            check(&beat, "ok");
            time_passes("119 seconds");
            check(&beat, "ok");
            time_passes("1 second");
            check(&beat, "cancel");
            check(&beat, "cancel");
            check(&format!("SELECT status, attempt {of_job}"), "RUNNING|1");
            check(&format!("SELECT cancel_requested, clock_timestamp() >= run_until FROM sched.running WHERE job_name = '{job}'"), "f|t");
            // A failure as any other, not a cancelled run: the job's policy says when it is tried again.
            run(&[&format!("SELECT sched.finish_failure(id, lease_token, 'run_timeout', 'too long') {of_job}")]);
            check(
                &format!("SELECT status, attempt, error_code, next_retry_at > now() + interval '50 minutes' {of_job}"),
                "FAILED|1|run_timeout|t",
            );
            time_passes("1 hour");
            check(&format!("SELECT count(*) FROM sched.claim('{job}')"), "1");
            check(&beat, "ok");
            time_passes("10 minutes");
            check(&beat, "cancel");
            // Its work counts, if it comes to that.
            run(&[&format!("SELECT sched.finish_success(id, lease_token) {of_job}")]);
            check(&format!("SELECT status, attempt {of_job}"), "SUCCESS|2");
            // And who was asked by cancel ends as that.
            run(&[
                &format!("SELECT sched.define_job('{job} cancelled', queue => '{job} cancelled', run_timeout => '1 s', max_attempts => 2)"),
                &format!("SELECT sched.try_claim('{job} cancelled', '2026-01-01', 'g', 'c')"),
            ]);
            let cancelled = format!("FROM sched.execution WHERE job_name = '{job} cancelled' AND scope_id = 'c'");
            time_passes("1 minute");
            run(&[
                &format!("SELECT sched.cancel(id) {cancelled}"),
                &format!("SELECT sched.finish_failure(id, lease_token) {cancelled}"),
            ]);
            check(&format!("SELECT status {cancelled}"), "CANCELLED");
        });
    }
}
