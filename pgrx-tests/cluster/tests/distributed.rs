//! Tables that another engine has distributed. No package here has Citus: its catalog is made by hand, as its documentation has it.

use postgres::error::SqlState;
use scheduler_cluster_tests::scheduler::{one, SOON};
use scheduler_cluster_tests::{stays, wait_for, wait_until, Cluster};
use std::time::Duration;

#[test]
fn distributed_tables_are_refused() {
    let cluster = Cluster::builder().set("sched.tick_interval", "1s").start();
    let mut db = cluster.with_extension("postgres");
    db.batch_execute(
        "select sched.define_job('job'), sched.define_job('log', kind => 'log'); select sched.enqueue('job');
         select sched.create_schedule('s', 'every 1 second', 'log')",
    )
    .unwrap();
    wait_for(&mut db, "select exists (select from sched.history where job_name = 'log')", SOON);
    db.batch_execute(
        "set allow_system_table_mods = on;
         create table pg_catalog.pg_dist_partition (logicalrelid regclass not null, partmethod \"char\" not null);
         reset allow_system_table_mods;
         create table public.visit (i int); insert into pg_dist_partition values ('public.visit', 'h')",
    )
    .unwrap();
    let calls = [
        "select sched.enqueue('job')",
        "select sched.enqueue_many('job', '{}')",
        "select sched.create_schedule('t', '@daily', 'job')",
        "select sched.create_schedules('[{\"schedule_name\": \"u\", \"clock\": \"@daily\", \"job_name\": \"job\"}]')",
        "select sched.define_job('other')",
        "select sched.schedule_sql('v', '@daily', 'select 1')",
        "select * from sched.claim()",
        "select * from sched.try_claim('job', now())",
        "select sched.dispatch_due()",
    ];
    for call in calls {
        cluster
            .connect()
            .batch_execute(&format!("begin; {call}; rollback"))
            .unwrap_or_else(|error| panic!("{call}: {error}"));
    }
    db.batch_execute("insert into pg_dist_partition values ('sched.ledger', 'h')").unwrap();
    for call in calls {
        let error = cluster.connect().batch_execute(call).expect_err(call);
        let error = error.as_db_error().expect("the server refuses it");
        assert_eq!(error.code(), &SqlState::FEATURE_NOT_SUPPORTED, "{call}: {error}");
        assert!(error.message().contains("sched.ledger"), "{call}: {error}");
    }
    wait_until("the dispatcher to say so", SOON, || {
        (!cluster.logged("waits: table \"sched.ledger\"").is_empty()).then_some(())
    });
    let fired = "select count(*) from sched.execution where job_name = 'log'";
    let before = stays("nothing to fire", Duration::from_millis(1500), || one::<i64>(&mut db, fired));
    db.batch_execute("delete from pg_dist_partition where logicalrelid = 'sched.ledger'::regclass").unwrap();
    wait_for(&mut db, &format!("select ({fired}) > {before}"), SOON);
}
