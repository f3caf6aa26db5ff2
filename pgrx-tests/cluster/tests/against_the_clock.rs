//! What has to wait for minutes of the wall clock. It does little meanwhile, and begins first, for tests begin in the order of their names: others
//! run beside it, and nobody waits for it at the end.

use crate::take_over::{self, check_witness, next_minute, state};
use crate::take_over_others;
use scheduler_cluster_tests::scheduler::{one, whole_grid, SOON};
use scheduler_cluster_tests::{pg_cron, pgagent, wait_for, Client, Cluster};
use std::time::Duration;

#[test]
fn every_second_of_a_minute_once() {
    let cluster = Cluster::new();
    let mut db = cluster.with_extension("postgres");
    // Each of them, also where a busy machine lets the dispatcher sleep for too long.
    db.batch_execute(
        "select sched.define_job('job'); select sched.create_schedule('s', 'every 1 second', 'job', catch_up => 'every_plan')",
    )
    .unwrap();
    let start: String = one(&mut db, "select created_at::text from sched.schedule");
    let end = format!("timestamptz '{start}' + interval '60 seconds'");
    wait_for(
        &mut db,
        &format!("select count(*) > 0 from sched.execution where plan_time >= {end}"),
        Duration::from_secs(120),
    );
    let row = db
        .query_one(
            &format!(
                "select count(*) filter (where plan_time <= {end}), min(plan_time) = timestamptz '{start}' + interval '1 second',
                        min(created_at - plan_time) < '0',
                        percentile_cont(0.5) within group (order by late) < 0.25,
                        format('lateness in ms: average %s, 95%% %s, worst %s',
                               round(1000 * avg(late)), round(1000 * percentile_cont(0.95) within group (order by late)),
                               round(1000 * max(late)))
                   from (select plan_time, created_at, extract(epoch from created_at - plan_time)::numeric as late
                           from sched.execution) as e"
            ),
            &[],
        )
        .unwrap();
    println!("{}", row.get::<_, String>(4));
    assert_eq!(row.get::<_, i64>(0), 60, "executions in 60 seconds");
    assert!(row.get::<_, bool>(1), "the first is one second after the creation");
    assert!(!row.get::<_, bool>(2), "none is early");
    assert!(row.get::<_, bool>(3), "most are on time: {}", row.get::<_, String>(4));
    whole_grid(&mut db, "s", "1 second");
}

#[test]
fn each_minute_is_run_once_through_a_take_over_and_back() {
    let Some(cluster) = pg_cron::server(&[("sched.tick_interval", "1s")]) else { return };
    let mut db = pg_cron::database(&cluster);
    take_over::each_minute(&mut db, 3);
    there_and_back(&mut db, &Peer {
        source: "pg_cron",
        switched: take_over::SWITCHED,
        on_again: &[
            "select cron.alter_job(1, active => true)",
            "update cron.job set active = true where jobid = 2",
            "set session_replication_role = replica; update cron.job set active = true where jobid = 1",
        ],
        past_the_guard: "alter table cron.job disable trigger scheduler_guard; update cron.job set active = true where jobid = 2",
    });
    wait_for(&mut db, "select count(*) = 1 from sched.alerts where kind = 'parked' and schedule_name = 'job 2'", SOON);
    leaves_no_guard(&mut db);
    db.batch_execute("select cron.alter_job(1, active => true)").unwrap();
}

#[test]
fn each_minute_of_pgagent_is_run_once_through_a_take_over_and_back() {
    let Some((cluster, mut db)) = take_over_others::server() else { return };
    take_over_others::each_minute(&mut db, 3);
    let _agent = pgagent::daemon(&cluster);
    there_and_back(&mut db, &Peer {
        source: "pgagent",
        switched: "select string_agg(concat_ws(' ', 'job', jscjobid, jscenabled), ', ' order by jscjobid) from pgagent.pga_schedule",
        on_again: &[
            "update pgagent.pga_schedule set jscenabled = true where jscjobid = 1",
            "set session_replication_role = replica; update pgagent.pga_schedule set jscenabled = true where jscjobid = 2",
        ],
        past_the_guard: "alter table pgagent.pga_schedule disable trigger scheduler_guard; update pgagent.pga_schedule set jscenabled = true where jscjobid = 2",
    });
    leaves_no_guard(&mut db);
}

/// Another scheduler, which runs three jobs each minute.
struct Peer {
    source: &'static str,
    /// Asks which of them are on there.
    switched: &'static str,
    /// Ways to switch them on there, which the guard refuses.
    on_again: &'static [&'static str],
    /// Switches the second on there nevertheless.
    past_the_guard: &'static str,
}

/// Each minute is run once while two of the jobs are taken over and one is handed back; the other is parked, as it comes to run in both.
fn there_and_back(db: &mut Client, peer: &Peer) {
    let by = "select string_agg(distinct job || ' ' || (by like 'scheduler%'), ', ') from witness where minute = date_trunc('minute', (select max(minute) from witness))";
    next_minute(db, 3);
    let taken = "select string_agg(concat_ws(' ', schedule_name, last_theirs is not null, first_ours > clock_timestamp() and first_ours <= clock_timestamp() + interval '1 minute'), ', ')";
    let taken = format!("{taken} from sched.take_over('{}', '{{job 1,job 2}}')", peer.source);
    assert_eq!(one::<String>(db, &taken), "job 1 t t, job 2 t t");
    assert_eq!(one::<String>(db, peer.switched), "job 1 f, job 2 f, job 3 t");
    for way in peer.on_again {
        assert_eq!(state(db.batch_execute(way)), "55006", "{way}");
        db.batch_execute("reset session_replication_role").unwrap();
    }
    next_minute(db, 3);
    assert_eq!(one::<String>(db, by), "job 1 true, job 2 true, job 3 false");
    db.batch_execute("select sched.hand_back('{job 1}')").unwrap();
    assert_eq!(one::<String>(db, peer.switched), "job 1 t, job 2 f, job 3 t");
    next_minute(db, 3);
    assert_eq!(one::<String>(db, by), "job 1 false, job 2 true, job 3 false");
    check_witness(db, 3);
    db.batch_execute(peer.past_the_guard).unwrap();
    wait_for(db, "select state = 'parked' from sched.schedules where schedule_name = 'job 2'", SOON);
}

fn leaves_no_guard(db: &mut Client) {
    // It would stay switched off there.
    assert_eq!(state(db.batch_execute("drop extension scheduler")), "55006");
    db.batch_execute("select sched.hand_back('{job 2}'); drop extension scheduler").unwrap();
    assert_eq!(one::<i64>(db, "select count(*) from pg_trigger where tgname = 'scheduler_guard'"), 0);
}
