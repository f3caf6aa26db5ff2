//! Jobs of kind notify and the server's queue of notifications, where it can be made so short that a test fills it (since PostgreSQL 17). For
//! all versions pgrx-tests/in_server/done.rs pretends that it is full.

use scheduler_cluster_tests::scheduler::{one, SOON};
use scheduler_cluster_tests::{wait_for, Client, Cluster, Shutdown};

/// A server with the shortest queue that there can be, of 512 kB; `None` where its length is no setting.
fn with_a_short_queue() -> Option<(Cluster, Client)> {
    let cluster = Cluster::new();
    let mut db = cluster.with_extension("postgres");
    if one::<bool>(&mut db, "select current_setting('server_version_num')::int < 170000") {
        return None;
    }
    cluster.set("max_notify_queue_pages", "64");
    drop(db);
    cluster.restart(Shutdown::Fast);
    let db = cluster.connect();
    Some((cluster, db))
}

const USAGE: &str = "select pg_notification_queue_usage()";

#[test]
fn a_full_queue_stops_no_schedule_that_does_not_need_it() {
    let Some((cluster, mut db)) = with_a_short_queue() else { return };
    let mut listener = cluster.connect();
    listener.batch_execute("listen news").unwrap();
    listener.batch_execute("begin; select 1").unwrap();
    for number in 0..64 {
        if one::<f64>(&mut db, USAGE) >= 0.9 {
            break;
        }
        db.batch_execute(&format!("select pg_notify('filler', repeat('x', 7900) || {number})")).unwrap();
    }
    db.batch_execute(
        "select sched.define_job('tells', 'notify', 'news'), sched.define_job('pulls');
         select sched.create_schedule('tells', 'every 100 milliseconds', 'tells', payload => to_jsonb(repeat('x', 7900)));
         select sched.create_schedule('pulls', 'every 100 milliseconds', 'pulls')",
    )
    .unwrap();
    wait_for(&mut db, "select state = 'failing' from sched.schedules where schedule_name = 'tells'", SOON);
    let error: String = one(&mut db, "select last_error from sched.schedules where schedule_name = 'tells'");
    assert!(error.starts_with("the server's queue of notifications is 9"), "{error}");
    let before: i64 = one(&mut db, "select count(*) from sched.execution where job_name = 'pulls'");
    wait_for(&mut db, &format!("select count(*) > {before} + 10 from sched.execution where job_name = 'pulls'"), SOON);
    let refused = db.batch_execute("select sched.enqueue('tells')").unwrap_err();
    assert_eq!(refused.code().unwrap().code(), "53400", "{refused}");
    assert_eq!(one::<i64>(&mut db, "select count(*) from sched.execution where job_name = 'tells'"), 0);
    listener.batch_execute("commit").unwrap();
    wait_for(&mut db, "select count(*) > 3 from sched.execution where job_name = 'tells'", SOON * 2);
    assert!(cluster.logged("too many notifications").is_empty(), "{}", cluster.log());
}

/// What is due together may be more than the whole queue takes.
#[test]
fn a_batch_that_would_not_fit_fires_in_parts() {
    let Some((cluster, mut db)) = with_a_short_queue() else { return };
    db.batch_execute(
        "select sched.define_job('tells', 'notify', 'news');
         select sched.create_schedules(jsonb_agg(jsonb_build_object('schedule_name', 's ' || i, 'job_name', 'tells',
                    'clock', 'at ' || to_char(now() at time zone 'UTC' + interval '2 seconds', 'YYYY-MM-DD HH24:MI:SS') || '+00',
                    'payload', repeat('x', 7900) || i)))
           from generate_series(1, 100) i",
    )
    .unwrap();
    wait_for(&mut db, "select count(*) = 100 from sched.execution where status = 'SUCCESS'", SOON * 2);
    assert!(cluster.logged("too many notifications").is_empty(), "{}", cluster.log());
}
