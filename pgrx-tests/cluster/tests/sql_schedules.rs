//! `schedule_sql` from several sessions at once, and after edits of what it has made.

use postgres::error::SqlState;
use scheduler_cluster_tests::scheduler::{one, SOON};
use scheduler_cluster_tests::{wait_for, Client, Cluster};
use std::thread;

/// A server with a role that owns what it schedules.
fn server() -> (Cluster, Client, Client) {
    let cluster = Cluster::new();
    let mut db = cluster.with_extension("postgres");
    db.batch_execute("create role app login; select sched.grant_use('app')").unwrap();
    let app = cluster.connect_as("app", "postgres");
    (cluster, db, app)
}

const CALL: &str = "select sched.schedule_sql('report', '0 3 * * *', 'select 1')";

/// Instances of an application that begin at once, each with the same call.
#[test]
fn calls_at_once_wait_for_one_another() {
    let (cluster, mut db, _app) = server();
    for (round, begin) in
        ["begin", "begin isolation level repeatable read", "begin isolation level serializable"].into_iter().enumerate()
    {
        let call = CALL.replace("report", &format!("report {round}"));
        let mut first = cluster.connect_as("app", "postgres");
        first.batch_execute("begin").unwrap();
        let id: i64 = one(&mut first, &call);
        let others: Vec<_> = (0..4)
            .map(|_| {
                let mut app = cluster.connect_as("app", "postgres");
                let call = call.clone();
                thread::spawn(move || {
                    app.batch_execute(begin).unwrap();
                    // An older snapshot than what the first one commits.
                    app.batch_execute("select from sched.schedules").unwrap();
                    let answer = app.query_one(&call, &[]).map(|row| row.get::<_, i64>(0));
                    app.batch_execute(if answer.is_ok() { "commit" } else { "rollback" }).unwrap();
                    answer
                })
            })
            .collect();
        let waiting = "select count(*) = 4 from pg_stat_activity where wait_event_type = 'Lock' and usename = 'app'";
        wait_for(&mut db, waiting, SOON);
        first.batch_execute("commit").unwrap();
        for other in others {
            match other.join().unwrap() {
                Ok(found) => assert_eq!(found, id),
                // What a snapshot hides is told as that: the client tries again.
                Err(error) => {
                    assert_ne!(begin, "begin", "{error:?}");
                    assert_eq!(error.code(), Some(&SqlState::T_R_SERIALIZATION_FAILURE), "{error:?}");
                }
            }
        }
        let versions =
            format!("select count(*), max(version) from sched.schedule where schedule_name = 'report {round}'");
        let row = db.query_one(&versions, &[]).unwrap();
        assert_eq!((row.get::<_, i64>(0), row.get::<_, i64>(1)), (1, 1));
    }
    // One that drops it meanwhile is waited for as well, and what it has dropped is made again.
    let mut first = cluster.connect_as("app", "postgres");
    first.batch_execute("begin; select sched.unschedule('report 0')").unwrap();
    let mut app = cluster.connect_as("app", "postgres");
    let call = CALL.replace("report", "report 0");
    let other = thread::spawn(move || one::<i64>(&mut app, &call));
    wait_for(
        &mut db,
        "select count(*) = 1 from pg_stat_activity where wait_event_type = 'Lock' and usename = 'app'",
        SOON,
    );
    first.batch_execute("commit").unwrap();
    let id = other.join().unwrap();
    assert_eq!(one::<i64>(&mut db, "select schedule_id from sched.schedule where schedule_name = 'report 0'"), id);
}

/// Whatever comes between: each call of schedule_sql and unschedule finds what it needs.
#[test]
fn calls_between_edits_of_others_do_not_fail() {
    let (cluster, mut db, _app) = server();
    let edits = [
        "sched.unschedule('report')",
        "sched.drop_schedule('report')",
        "sched.alter_schedule('report', new_name => 'renamed')",
        "sched.alter_job('report', kind => 'pull', reset => '{command}')",
    ];
    let sessions: Vec<_> = (0..4_usize)
        .map(|session| {
            let mut app = cluster.connect_as("app", "postgres");
            thread::spawn(move || {
                for round in 0..25 {
                    app.batch_execute(CALL)
                        .unwrap_or_else(|error| panic!("session {session}, round {round}: {error:?}"));
                    let edit = edits[(session + round) % edits.len()];
                    match app.batch_execute(&format!("select {edit}")) {
                        // Another session has dropped or renamed it.
                        Err(error) if error.code() == Some(&SqlState::UNDEFINED_OBJECT) => {}
                        done => done.unwrap_or_else(|error| panic!("{edit}: {error:?}")),
                    }
                }
            })
        })
        .collect();
    for session in sessions {
        session.join().unwrap();
    }
    let mut app = cluster.connect_as("app", "postgres");
    app.batch_execute(CALL).unwrap();
    let all = "select string_agg(concat_ws(' ', schedule_name, job_name, kind), ', ') from sched.schedule full join sched.job using (job_name)";
    assert_eq!(one::<String>(&mut db, all), "report report sql");
}

const PAIR: &str = "select concat_ws(' ', s.schedule_id, s.schedule_name, s.job_name, s.clock, j.kind, j.command, s.baseline_at, s.scope_id)
                      from sched.schedule s join sched.job j using (job_name) where s.schedule_name = 'report'";

#[test]
fn the_next_call_puts_right_what_edits_have_made_of_a_pair() {
    let (_cluster, mut db, mut app) = server();
    app.batch_execute(CALL).unwrap();
    app.batch_execute("select sched.define_job('other')").unwrap();
    let made: String = one(&mut db, PAIR);
    for edit in [
        "sched.alter_schedule('report', new_name => 'renamed')",
        "sched.alter_schedule('report', job_name => 'other')",
        "sched.alter_schedule('report', new_name => 'renamed', job_name => 'other')",
        "sched.alter_schedule('report', new_name => 'renamed', job_name => 'other'), sched.drop_job('report')",
        "sched.alter_schedule('report', job_name => 'other'), sched.drop_job('report')",
        "sched.alter_job('report', kind => 'pull', reset => '{command}')",
        "sched.define_job('report', 'notify', 'channel')",
        "sched.alter_job('report', command => 'select 2', queue => 'slow')",
    ] {
        app.batch_execute(&format!("select {edit}")).unwrap();
        app.batch_execute(CALL).unwrap_or_else(|error| panic!("{edit}: {error}"));
        assert_eq!(one::<String>(&mut db, PAIR), made, "{edit}");
        assert_eq!(one::<i64>(&mut db, "select count(*) from sched.schedule"), 1, "{edit}");
    }
    // A schedule that was dropped is another one.
    app.batch_execute("select sched.drop_schedule('report')").unwrap();
    app.batch_execute(CALL).unwrap();
    assert_ne!(one::<String>(&mut db, PAIR), made);
    // Two that have changed their names.
    app.batch_execute(
        "select sched.schedule_sql('second', '@daily', 'select 2');
         select sched.alter_schedule('report', new_name => 'between'), sched.alter_schedule('second', new_name => 'report');
         select sched.alter_schedule('between', new_name => 'second')",
    )
    .unwrap();
    app.batch_execute(CALL).unwrap();
    app.batch_execute("select sched.schedule_sql('second', '@daily', 'select 2')").unwrap();
    let both = "select string_agg(concat_ws(' ', schedule_name, job_name, clock), ', ' order by schedule_name) from sched.schedule";
    assert_eq!(one::<String>(&mut db, both), "report report 0 3 * * *, second second @daily");
    // A name that the schedule of another pair has come to.
    app.batch_execute("select sched.alter_schedule('second', new_name => 'third'); select sched.schedule_sql('third', '@daily', 'select 3')").unwrap();
    assert_eq!(one::<String>(&mut db, both), "report report 0 3 * * *, third third @daily");
    app.batch_execute("select sched.schedule_sql('second', '@daily', 'select 2')").unwrap();
    assert_eq!(one::<String>(&mut db, both), "report report 0 3 * * *, second second @daily, third third @daily");
    // What never was of a pair is nobody's to replace.
    app.batch_execute("select sched.create_schedule('made', '@daily', 'other')").unwrap();
    for name in ["made", "other"] {
        let error = app.batch_execute(&CALL.replace("report", name)).expect_err(name);
        assert_eq!(error.code(), Some(&SqlState::DUPLICATE_OBJECT), "{name}: {error}");
    }
    // A job that was made anew is another one, whatever its name was part of.
    app.batch_execute(
        "select sched.alter_schedule('third', job_name => 'other'), sched.drop_job('third'), sched.define_job('third')",
    )
    .unwrap();
    let error = app.batch_execute(&CALL.replace("report", "third")).expect_err("third");
    assert_eq!(error.code(), Some(&SqlState::DUPLICATE_OBJECT), "{error}");
}

#[test]
fn unschedule_drops_what_is_left_of_a_pair() {
    let (_cluster, mut db, mut app) = server();
    app.batch_execute("select sched.define_job('other')").unwrap();
    for (edit, name) in [
        ("sched.pause('report')", "report"),
        ("sched.drop_schedule('report')", "report"),
        ("sched.alter_schedule('report', new_name => 'renamed')", "report"),
        ("sched.alter_schedule('report', new_name => 'renamed')", "renamed"),
        ("sched.alter_schedule('report', job_name => 'other')", "report"),
        (
            "sched.alter_schedule('report', new_name => 'renamed', job_name => 'other'), sched.drop_job('report')",
            "report",
        ),
        ("sched.alter_job('report', kind => 'pull', reset => '{command}')", "report"),
    ] {
        app.batch_execute(CALL).unwrap();
        app.batch_execute(&format!("select {edit}")).unwrap();
        app.batch_execute("select sched.enqueue('report') from sched.jobs where job_name = 'report'").unwrap();
        assert!(one::<bool>(&mut app, &format!("select sched.unschedule('{name}')")), "{edit}");
        let left = "select string_agg(name, ', ') from (select job_name as name from sched.job union all select schedule_name from sched.schedule) as n";
        assert_eq!(one::<String>(&mut db, left), "other", "{edit}");
        // (A runner may have it in hand, and ends it.)
        wait_for(&mut db, "select not exists (select from sched.execution where status = 'PENDING')", SOON);
        assert!(!one::<bool>(&mut app, &format!("select sched.unschedule('{name}')")), "{edit}");
    }
    let error = app.batch_execute("select sched.unschedule('other')").expect_err("other");
    assert_eq!(error.code(), Some(&SqlState::DUPLICATE_OBJECT), "{error}");
}

/// What one role has hidden behind a name keeps it from nobody, and is taken from nobody.
#[test]
fn the_pair_of_a_name_is_of_one_owner() {
    let (cluster, mut db, mut app) = server();
    app.batch_execute(CALL).unwrap();
    app.batch_execute(
        "select sched.define_job('other'); select sched.alter_schedule('report', new_name => 'hidden', job_name => 'other'), sched.drop_job('report')",
    )
    .unwrap();
    db.batch_execute("create role second login; select sched.grant_use('second')").unwrap();
    for role in ["second", "postgres"] {
        let mut caller = cluster.connect_as(role, "postgres");
        caller.batch_execute(CALL).unwrap_or_else(|error| panic!("{role}: {error:?}"));
        let all = "select string_agg(concat_ws(' ', s.schedule_name, s.job_name, j.owner), ', ' order by 1) from sched.schedule s join sched.job j using (job_name)";
        assert_eq!(one::<String>(&mut db, all), format!("hidden other app, report report {role}"));
        let error = app.batch_execute(CALL).expect_err("the job is another's");
        assert_eq!(error.code(), Some(&SqlState::INSUFFICIENT_PRIVILEGE), "{error}");
        caller.batch_execute("select sched.unschedule('report')").unwrap();
    }
    app.batch_execute(CALL).unwrap();
    assert_eq!(one::<String>(&mut db, "select schedule_name || job_name from sched.schedule"), "reportreport");
}

/// A migration may have any number of them, each of which would otherwise have an entry there to its end.
#[test]
fn calls_in_one_transaction_take_no_room_in_the_lock_table() {
    let (_cluster, _db, mut app) = server();
    let locks = "select count(*) from pg_locks where pid = pg_backend_pid()";
    let calls = |from: i32, to: i32| {
        format!("select count(sched.schedule_sql('report ' || i, '@daily', 'select 1')) from generate_series({from}, {to}) as i")
    };
    for _ in 0..2 {
        app.batch_execute("begin").unwrap();
        app.batch_execute(&calls(1, 5)).unwrap();
        let before: i64 = one(&mut app, locks);
        app.batch_execute(&calls(6, 50)).unwrap();
        assert_eq!(one::<i64>(&mut app, locks), before);
        app.batch_execute("commit").unwrap();
    }
}
