//! Debian's pg_cron beside the extension.

use crate::cluster::Cluster;
use crate::environment::bin;
use crate::scheduler::SOON;
use crate::wait::wait_for;
use postgres::Client;

/// A server that preloads both, with these settings besides; `None` where there is no pg_cron for it (Debian 12 has one for PostgreSQL 15).
#[must_use]
pub fn server(settings: &[(&str, &str)]) -> Option<Cluster> {
    let share = bin().to_string_lossy().replace("/lib/postgresql/", "/share/postgresql/").replace("/bin", "/extension");
    let is_there = std::path::Path::new(&share).join("pg_cron.control").exists();
    if !is_there {
        assert!(!share.contains("/15/"), "pg_cron is missing in {share}: run tools/setup.sh");
        println!("skipped: there is no pg_cron for this server");
        return None;
    }
    let own = [
        ("shared_preload_libraries", "scheduler, pg_cron"),
        ("cron.database_name", "postgres"),
        ("cron.use_background_workers", "on"),
        ("max_worker_processes", "24"),
    ];
    let builder =
        own.iter().chain(settings).fold(Cluster::builder(), |builder, (name, value)| builder.set(name, value));
    Some(builder.start())
}

/// A superuser's connection to its database, with both extensions created and pg_cron's launcher at work.
pub fn database(cluster: &Cluster) -> Client {
    let mut client = cluster.connect();
    client.batch_execute("create extension scheduler; create extension pg_cron").unwrap();
    wait_for(&mut client, "select exists (select from pg_stat_activity where application_name = 'pg_cron scheduler' or backend_type = 'pg_cron launcher')", SOON);
    client
}

/// A table as pg_cron has it, with a job of the role `evil`.
pub const A_JOB_OF_EVIL: &str = "set search_path = pg_catalog; create schema cron; grant usage on schema cron to evil;
    create table cron.job (jobid bigint, schedule text, command text, nodename text, nodeport int, database text, username text, active boolean, jobname text);
    create table cron.job_run_details (jobid bigint, runid bigint, start_time timestamp with time zone, end_time timestamp with time zone);
    grant select on cron.job, cron.job_run_details to evil;
    insert into cron.job values (1, '0 9 * * *', 'select 1 as one', 'localhost', 5432, 'prey', 'evil', true, 'from cron')";
