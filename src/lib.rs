//! The Postgres shell of the scheduler: SQL functions (`api`), statements (`store`), one tick (`dispatch`) and the background
//! workers (`worker`) around the pure core, which does all the arithmetic.
#![allow(unsafe_code)]

use pgrx::prelude::*;

mod api;
mod cron_settings;
mod dispatch;
mod execute;
mod guc;
mod health;
mod heap;
mod metrics;
mod pg;
mod report;
mod shmem;
mod store;
mod utility_hooks;
mod worker;

::pgrx::pg_module_magic!(name, version);

/// Tells the generator that the schema exists; 00_schema.sql creates it.
#[pg_schema]
mod sched {}

/// The same for what users have no use for.
#[pg_schema]
mod sched_internal {}

extension_sql_file!("../sql/schema/00_schema.sql", name = "schema", bootstrap);
extension_sql_file!("../sql/schema/04_test_clock.sql", name = "test_clock");
extension_sql_file!("../sql/schema/05_home.sql", name = "home", requires = ["test_clock"]);
extension_sql_file!("../sql/schema/06_shard.sql", name = "shard", requires = ["home"]);
extension_sql_file!("../sql/schema/10_job.sql", name = "job");
extension_sql_file!(
    "../sql/schema/20_schedule.sql",
    name = "schedule",
    requires = ["job", api::sql_support::wake_dispatcher, api::sql_support::scope_key]
);
extension_sql_file!("../sql/schema/25_imported.sql", name = "imported", requires = ["schedule"]);
extension_sql_file!("../sql/schema/30_timer.sql", name = "timer", requires = ["schedule"]);
extension_sql_file!(
    "../sql/schema/40_execution.sql",
    name = "execution",
    requires = ["timer", api::sql_support::uuid_v7]
);
extension_sql_file!("../sql/schema/35_skip.sql", name = "skip", requires = ["timer"]);
extension_sql_file!("../sql/schema/45_alert.sql", name = "alert", requires = ["execution"]);
extension_sql_file!(
    "../sql/schema/50_views.sql",
    name = "views",
    requires = [
        "execution",
        "skip",
        "alert",
        api::home::is_home,
        api::shard::bucket,
        api::shard::buckets,
        api::explain::skipped_so_far,
        api::explain::skip_parts,
        api::explain::next_open
    ]
);
extension_sql_file!("../sql/schema/52_alert_views.sql", name = "alert_views", requires = ["views"]);
extension_sql_file!("../sql/schema/53_recent_views.sql", name = "recent_views", requires = ["alert_views"]);
extension_sql_file!(
    "../sql/schema/54_reads.sql",
    name = "reads",
    requires = ["recent_views", api::executions_of::ids_of_scope, api::executions_of::ids_of_schedule]
);
extension_sql_file!("../sql/schema/55_columns.sql", name = "columns", requires = ["reads"]);
extension_sql_file!(
    "../sql/schema/60_dump.sql",
    name = "dump",
    requires = ["home", "shard", "imported", "execution", "skip", "alert"]
);
extension_sql_file!("../sql/schema/80_router.sql", name = "router", requires = ["reads"]);
extension_sql_file!("../sql/schema/90_grants.sql", name = "grants", finalize);

/// Called by Postgres when the library is loaded: registers settings always, shared memory and the launcher only while the
/// server starts.
#[pg_guard]
#[allow(non_snake_case)]
pub extern "C-unwind" fn _PG_init() {
    // SAFETY: no other thread reads the environment. With a backtrace the details of our errors would show source paths.
    unsafe {
        std::env::remove_var("RUST_BACKTRACE");
        std::env::remove_var("RUST_LIB_BACKTRACE");
    }
    // SAFETY: reads globals of the process.
    let (preloading, upgrading) =
        unsafe { (pg_sys::process_shared_preload_libraries_in_progress, pg_sys::IsBinaryUpgrade) };
    guc::register(preloading);
    if preloading {
        cron_settings::register();
    }
    if preloading && !upgrading {
        shmem::counters::register();
        shmem::registry::register();
        shmem::runners::register();
        shmem::low_water_mark::register();
        shmem::notifications::register();
        shmem::exclusion::register();
        shmem::gate::register();
        shmem::log_limit::register();
        utility_hooks::register();
        worker::launcher::register();
    }
}

#[cfg(any(test, feature = "pg_test"))]
#[path = "../pgrx-tests/in_server/after_runs.rs"]
mod after_runs_tests;
#[cfg(any(test, feature = "pg_test"))]
#[path = "../pgrx-tests/in_server/alert.rs"]
mod alert_tests;
#[cfg(any(test, feature = "pg_test"))]
#[path = "../pgrx-tests/in_server/bad_input.rs"]
mod bad_input_tests;
#[cfg(any(test, feature = "pg_test"))]
#[path = "../pgrx-tests/in_server/batch_bounds.rs"]
mod batch_bounds_tests;
#[cfg(any(test, feature = "pg_test"))]
#[path = "../pgrx-tests/in_server/clock_docs.rs"]
mod clock_docs_tests;
#[cfg(any(test, feature = "pg_test"))]
#[path = "../pgrx-tests/in_server/clock_intervals.rs"]
mod clock_intervals_tests;
#[cfg(any(test, feature = "pg_test"))]
#[path = "../pgrx-tests/in_server/clock_postgres.rs"]
mod clock_postgres_tests;
#[cfg(any(test, feature = "pg_test"))]
#[path = "../pgrx-tests/in_server/clock.rs"]
mod clock_tests;
#[cfg(any(test, feature = "pg_test"))]
#[path = "../pgrx-tests/in_server/clock_texts.rs"]
mod clock_texts_tests;
#[cfg(feature = "pg_test")]
#[path = "../pgrx-tests/in_server/clock_zones.rs"]
mod clock_zones_tests;
#[cfg(any(test, feature = "pg_test"))]
#[path = "../pgrx-tests/in_server/crontab.rs"]
mod crontab_tests;
#[cfg(any(test, feature = "pg_test"))]
#[path = "../pgrx-tests/in_server/delayed.rs"]
mod delayed_tests;
#[cfg(any(test, feature = "pg_test"))]
#[path = "../pgrx-tests/in_server/dispatch.rs"]
mod dispatch_tests;
#[cfg(any(test, feature = "pg_test"))]
#[path = "../pgrx-tests/in_server/done.rs"]
mod done_tests;
#[cfg(any(test, feature = "pg_test"))]
#[path = "../pgrx-tests/in_server/enqueue.rs"]
mod enqueue_tests;
#[cfg(any(test, feature = "pg_test"))]
#[path = "../pgrx-tests/in_server/execution.rs"]
mod execution_tests;
#[cfg(any(test, feature = "pg_test"))]
#[path = "../pgrx-tests/in_server/fire_rows.rs"]
mod fire_rows_tests;
#[cfg(any(test, feature = "pg_test"))]
#[path = "../pgrx-tests/in_server/history.rs"]
mod history_tests;
#[cfg(any(test, feature = "pg_test"))]
#[path = "../pgrx-tests/in_server/import_compare.rs"]
mod import_compare_tests;
#[cfg(any(test, feature = "pg_test"))]
#[path = "../pgrx-tests/in_server/import_pg_cron.rs"]
mod import_pg_cron_tests;
#[cfg(any(test, feature = "pg_test"))]
#[path = "../pgrx-tests/in_server/import_pg_timetable.rs"]
mod import_pg_timetable_tests;
#[cfg(any(test, feature = "pg_test"))]
#[path = "../pgrx-tests/in_server/import_planted.rs"]
mod import_planted_tests;
#[cfg(any(test, feature = "pg_test"))]
#[path = "../pgrx-tests/in_server/internal_schema.rs"]
mod internal_schema_tests;
#[cfg(any(test, feature = "pg_test"))]
#[path = "../pgrx-tests/in_server/job_edit.rs"]
mod job_edit_tests;
#[cfg(any(test, feature = "pg_test"))]
#[path = "../pgrx-tests/in_server/job.rs"]
mod job_tests;
#[cfg(any(test, feature = "pg_test"))]
#[path = "../pgrx-tests/in_server/keywords.rs"]
mod keywords_tests;
#[cfg(any(test, feature = "pg_test"))]
#[path = "../pgrx-tests/in_server/leak.rs"]
mod leak_tests;
#[cfg(any(test, feature = "pg_test"))]
#[path = "../pgrx-tests/in_server/lease_grid.rs"]
mod lease_grid_tests;
#[cfg(any(test, feature = "pg_test"))]
#[path = "../pgrx-tests/in_server/lease.rs"]
mod lease_tests;
#[cfg(any(test, feature = "pg_test"))]
#[path = "../pgrx-tests/in_server/overlap.rs"]
mod overlap_tests;
#[cfg(any(test, feature = "pg_test"))]
#[path = "../pgrx-tests/in_server/permission_grid.rs"]
mod permission_grid_tests;
#[cfg(any(test, feature = "pg_test"))]
#[path = "../pgrx-tests/in_server/permission.rs"]
mod permission_tests;
#[cfg(any(test, feature = "pg_test"))]
#[path = "../pgrx-tests/in_server/queue_pause.rs"]
mod queue_pause_tests;
#[cfg(any(test, feature = "pg_test"))]
#[path = "../pgrx-tests/in_server/reads.rs"]
mod reads_tests;
#[cfg(any(test, feature = "pg_test"))]
#[path = "../pgrx-tests/in_server/recent.rs"]
mod recent_tests;
#[cfg(any(test, feature = "pg_test"))]
#[path = "../pgrx-tests/in_server/rows.rs"]
mod rows_tests;
#[cfg(any(test, feature = "pg_test"))]
#[path = "../pgrx-tests/in_server/run_timeout.rs"]
mod run_timeout_tests;
#[cfg(any(test, feature = "pg_test"))]
#[path = "../pgrx-tests/in_server/runner_board.rs"]
mod runner_board_tests;
#[cfg(any(test, feature = "pg_test"))]
#[path = "../pgrx-tests/in_server/schedule_bulk.rs"]
mod schedule_bulk_tests;
#[cfg(any(test, feature = "pg_test"))]
#[path = "../pgrx-tests/in_server/schedule_docs.rs"]
mod schedule_docs_tests;
#[cfg(any(test, feature = "pg_test"))]
#[path = "../pgrx-tests/in_server/schedule_runs.rs"]
mod schedule_runs_tests;
#[cfg(any(test, feature = "pg_test"))]
#[path = "../pgrx-tests/in_server/schedule.rs"]
mod schedule_tests;
#[cfg(any(test, feature = "pg_test"))]
#[path = "../pgrx-tests/in_server/skip.rs"]
mod skip_tests;
#[cfg(any(test, feature = "pg_test"))]
#[path = "../pgrx-tests/in_server/snooze.rs"]
mod snooze_tests;
#[cfg(any(test, feature = "pg_test"))]
#[path = "../pgrx-tests/in_server/sql_command.rs"]
mod sql_command_tests;
#[cfg(any(test, feature = "pg_test"))]
#[path = "../pgrx-tests/in_server/sql_job.rs"]
mod sql_job_tests;
#[cfg(any(test, feature = "pg_test"))]
#[path = "../pgrx-tests/in_server/sql_schedule.rs"]
mod sql_schedule_tests;
#[cfg(any(test, feature = "pg_test"))]
#[path = "../pgrx-tests/in_server/test_job_result.rs"]
mod test_job_result_tests;
#[cfg(any(test, feature = "pg_test"))]
#[path = "../pgrx-tests/in_server/test_job.rs"]
mod test_job_tests;
#[cfg(any(test, feature = "pg_test"))]
#[path = "../pgrx-tests/support/mod.rs"]
mod test_support;
#[cfg(any(test, feature = "pg_test"))]
#[path = "../pgrx-tests/in_server/unique_scope.rs"]
mod unique_scope_tests;
#[cfg(any(test, feature = "pg_test"))]
#[path = "../pgrx-tests/in_server/worker_rights.rs"]
mod worker_rights_tests;

/// What pgrx asks of a crate with #[pg_test]s.
#[cfg(test)]
pub mod pg_test {
    /// Called once before the tests; there is nothing to prepare.
    pub fn setup(_options: Vec<&str>) {}

    /// Settings of the cluster that the tests run in.
    #[must_use]
    pub fn postgresql_conf_options() -> Vec<&'static str> {
        let mut options = vec!["shared_preload_libraries = 'scheduler'", "timezone = 'UTC'"];
        // Every suite runs by statements as well.
        if std::env::var("SCHEDULER_FAST_PATH").is_ok_and(|value| value == "off") {
            options.push("sched.fast_path = off");
        }
        options
    }
}
