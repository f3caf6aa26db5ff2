//! `drop_schedule` with `cancel_pending` cancels what nobody runs, waits for nobody, and costs what the schedule has open. Schedules that two
//! sessions create at once.

use scheduler_cluster_tests::scheduler::{one, whole_grid, SOON};
use scheduler_cluster_tests::tables::*;
use scheduler_cluster_tests::{wait_for, Client, Cluster};
use std::thread;

use crate::copies::{dump, restore};

/// Schedules of which a plan is due that a policy of theirs makes up.
fn due(db: &mut Client, names: &[&str]) {
    create(db, names);
    make_due(db, names);
}

fn create(db: &mut Client, names: &[&str]) {
    for name in names {
        let create =
            format!("select sched.create_schedule('{name}', 'every 1000 days from 2020-01-01 00:00+00', 'job')");
        db.batch_execute(&create).unwrap();
    }
}

fn make_due(db: &mut Client, names: &[&str]) {
    let past = "update sched.schedule set baseline_at = '2020-01-01 00:00+00' where schedule_name = any ($1)";
    db.execute(past, &[&names]).unwrap();
}

fn without_dispatch() -> (Cluster, Client) {
    let cluster = Cluster::builder().set("sched.enabled", "off").start();
    let mut db = cluster.with_extension("postgres");
    db.batch_execute("select sched.define_job('job'); set lock_timeout = '20s'; set statement_timeout = '20s'")
        .unwrap();
    (cluster, db)
}

#[test]
fn nothing_is_fired_while_the_drop_of_its_schedule_is_open() {
    let (cluster, mut db) = without_dispatch();
    let create = |name: &str| format!("select sched.create_schedule('{name}', 'every 50 milliseconds', 'job')");
    let mut dispatcher = cluster.connect();
    let count = |name: &str| format!("(select count(*) from sched.ledger where schedule_name = '{name}')");
    let mut fires_until = |condition: &str| {
        wait_for(&mut dispatcher, &format!("select sched.dispatch_due() >= 0 and {condition}"), SOON);
    };
    db.batch_execute(&create("dropped")).unwrap();
    db.batch_execute(&create("kept")).unwrap();
    fires_until(&format!("{} > 0", count("dropped")));
    // Nobody waits for a dispatcher that is just firing it.
    let mut slow = cluster.connect();
    slow.batch_execute("begin").unwrap();
    wait_for(&mut slow, "select sched.dispatch_due() = 2", SOON);
    db.batch_execute("begin; select sched.drop_schedule('dropped', cancel_pending => true); rollback").unwrap();
    slow.batch_execute("rollback").unwrap();
    // While the drop is open the other one fires; rolled back it keeps nobody from anything.
    let mut fired = 0;
    for end in ["rollback", "commit"] {
        db.batch_execute("begin; select sched.drop_schedule('dropped', cancel_pending => true)").unwrap();
        db.batch_execute(&create("dropped")).unwrap();
        fired = one(&mut db, &format!("select {}", count("dropped")));
        let kept: i64 = one(&mut db, &format!("select {}", count("kept")));
        fires_until(&format!("{} > {kept} + 2", count("kept")));
        assert_eq!(one::<i64>(&mut db, &format!("select {}", count("dropped"))), fired, "{end}");
        db.batch_execute(end).unwrap();
        if end == "rollback" {
            fires_until(&format!("{} > {fired}", count("dropped")));
            // What it fired in another scope is its own as well.
            db.batch_execute("select sched.alter_schedule('dropped', scope_id => 'elsewhere')").unwrap();
            fires_until("exists (select from sched.ledger where scope_id = 'elsewhere')");
        }
    }
    let open = "select count(*) from sched.ledger where schedule_name = 'dropped' and status <> 'CANCELLED'";
    assert_eq!(one::<i64>(&mut db, open), 0, "of {fired}");
    let waiting = format!("select count(*) = {} from {READY} r", count("kept"));
    assert!(one::<bool>(&mut db, &waiting));
    // One of the same name begins anew.
    fires_until(&format!("{} > {fired}", count("dropped")));
}

/// What is claimable, and what the views call claimable, of a schedule.
fn claimable(db: &mut Client, name: &str) -> (i64, i64) {
    let pending = format!(
        "select count(*) from sched.execution where schedule_name = '{name}' and (status = 'PENDING' or next_retry_at is not null)"
    );
    let pending = one(db, &pending);
    let mut claims = db.transaction().unwrap();
    let claimed = claims.query("select * from sched.claim(max_claims => 1000)", &[]).unwrap();
    let ids: Vec<String> = claimed.iter().map(|row| format!("'{}'", row.get::<_, String>("scope_id"))).collect();
    claims.rollback().unwrap();
    (ids.iter().filter(|id| **id == format!("'{name}'")).count() as i64, pending)
}

/// Whether the run of this plan can be claimed by its key.
fn try_claim(db: &mut Client, name: &str) -> String {
    let key = format!(
        "select outcome from sched.try_claim('job', (select max(plan_time) from sched.ledger where schedule_name = '{name}'), 'schedule', '{name}')"
    );
    one(db, &key)
}

/// All that is left to do about dropped schedules is done.
fn settled(db: &mut Client) {
    wait_for(db, "select sched.dispatch_due() >= 0 and not exists (select from sched.schedule_dropped)", SOON);
}

#[test]
fn what_was_being_fired_while_its_schedule_was_dropped_is_never_claimable() {
    // (Nothing that has notified can be prepared.)
    let cluster = Cluster::builder()
        .set("sched.enabled", "off")
        .set("sched.notify", "off")
        .set("max_prepared_transactions", "2")
        .start();
    let mut db = cluster.with_extension("postgres");
    db.batch_execute("select sched.define_job('job'); set lock_timeout = '20s'; set statement_timeout = '20s'")
        .unwrap();
    // Row by row, and by the statements, which a table with a column of somebody else's is left to.
    for by_statements in [false, true] {
        if by_statements {
            db.batch_execute(&format!(
                "alter table {READY_TABLE} add column more int; alter table sched.ledger add column more int"
            ))
            .unwrap();
        }
        for end in ["commit", "prepare transaction 'fire'"] {
            let names = ["kept", "dropped", "left", "taken back"];
            create(&mut db, &names);
            if end == "commit" {
                // They have their timers. The others get them from who fires them.
                db.batch_execute("select sched.dispatch_due()").unwrap();
            }
            make_due(&mut db, &names);
            let mut fires = cluster.connect();
            fires.batch_execute("begin").unwrap();
            assert_eq!(one::<i64>(&mut fires, "select sched.dispatch_due()"), 4);
            db.batch_execute(
                "select sched.drop_schedule('dropped', cancel_pending => true); select sched.drop_schedule('left')",
            )
            .unwrap();
            db.batch_execute("begin; select sched.drop_schedule('taken back', cancel_pending => true); rollback")
                .unwrap();
            // Of the same name, and none of its fault.
            due(&mut db, &["dropped again", "dropped"]);
            fires.batch_execute(end).unwrap();
            if end != "commit" {
                db.batch_execute("commit prepared 'fire'").unwrap();
            }
            assert_eq!(claimable(&mut db, "dropped"), (0, 0), "{end}");
            assert_eq!(try_claim(&mut db, "dropped"), "conflicted");
            for name in ["kept", "left", "taken back"] {
                assert_eq!(claimable(&mut db, name), (1, 1), "{name} after {end}");
            }
            assert_eq!(try_claim(&mut db, "kept"), "won");
            settled(&mut db);
            let state = "select string_agg(status, ' ') from sched.ledger where schedule_name = 'dropped' and finished_at is not null";
            assert_eq!(one::<String>(&mut db, state), "CANCELLED");
            assert_eq!(try_claim(&mut db, "dropped"), "conflicted");
            assert_eq!(claimable(&mut db, "dropped again"), (1, 1));
            db.batch_execute(&format!(
                "select sched.drop_schedule(schedule_name, cancel_pending => true) from sched.schedules;
                 {NO_EXECUTIONS}"
            ))
            .unwrap();
            settled(&mut db);
        }
    }
}

/// What somebody has in hand at that moment and gives back, or fails with, is not tried again.
#[test]
fn what_somebody_has_in_hand_while_its_schedule_is_dropped_is_not_claimable_afterwards() {
    // Runs that go on keep what they have from dispatch_due, in whose transaction they might have to wait; the worker tells them at once.
    for worker in ["off", "on"] {
        let (cluster, mut db) = without_dispatch();
        db.batch_execute("select sched.define_job('job', max_attempts => 5, retry_backoff => '{}')").unwrap();
        due(&mut db, &["given back", "failed", "stale", "succeeded"]);
        assert_eq!(one::<i64>(&mut db, "select sched.dispatch_due()"), 4);
        db.batch_execute(
            "create table held as select e.schedule_name, c.* from sched.execution e,
                    sched.try_claim('job', e.plan_time, 'schedule', e.scope_id, stale_timeout => case when e.scope_id = 'stale' then '1 millisecond'::interval else '1 hour' end) c
              where e.scope_id <> 'given back'",
        )
        .unwrap();
        let mut claimer = cluster.connect();
        claimer.batch_execute("begin").unwrap();
        assert_eq!(
            one::<i64>(
                &mut claimer,
                "select count(*) from sched.claim(max_claims => 10) where scope_id = 'given back'"
            ),
            1
        );
        db.batch_execute(
            "select sched.drop_schedule(name, cancel_pending => true) from unnest('{given back,failed,stale,succeeded}'::text[]) name",
        )
        .unwrap();
        claimer.batch_execute("rollback").unwrap();
        // Before anybody has come to it.
        for name in ["given back", "stale"] {
            assert_eq!(claimable(&mut db, name), (0, 0), "{name}");
            assert_eq!(try_claim(&mut db, name), "conflicted", "{name}");
        }
        if worker == "on" {
            cluster.set("sched.enabled", worker);
            wait_for(&mut db, "select not exists (select from sched.schedule_dropped)", SOON);
        } else {
            db.batch_execute("select sched.dispatch_due()").unwrap();
        }
        db.batch_execute(
            "select sched.heartbeat(execution_id, lease_token) from held where schedule_name = 'succeeded';
             select sched.finish_success(execution_id, lease_token) from held where schedule_name = 'succeeded';
             select sched.finish_failure(execution_id, lease_token) from held where schedule_name = 'failed';
             select sched.mark_stale_as_failed()",
        )
        .unwrap();
        wait_for(&mut db, "select not exists (select from sched.running)", SOON);
        for name in ["given back", "failed", "stale", "succeeded"] {
            assert_eq!(claimable(&mut db, name), (0, 0), "{name}");
            assert_eq!(try_claim(&mut db, name), "conflicted", "{name}");
        }
        settled(&mut db);
        // The stale one may have been ended before the drop was looked at, or after that.
        let all = "select string_agg(concat_ws(' ', schedule_name, case when schedule_name <> 'stale' then status end, next_retry_at), ', ' order by schedule_name) from sched.execution";
        let ended = if worker == "on" { "FAILED" } else { "CANCELLED" };
        assert_eq!(
            one::<String>(&mut db, all),
            format!("failed {ended}, given back CANCELLED, stale, succeeded SUCCESS")
        );
        assert_eq!(one::<i64>(&mut db, "select count(*) from sched.claim(max_claims => 10)"), 0);
    }
}

/// A transaction that has nothing to do with it keeps the drop remembered, and nothing of what was given back before the others that wait.
#[test]
fn what_is_given_back_is_cancelled_whatever_else_is_open() {
    let (cluster, mut db) = without_dispatch();
    create(&mut db, &["dropped"]);
    let plans = "select sched.backfill('dropped', '2020-01-01 00:00+00', '2025-01-01 00:00+00')";
    db.batch_execute(&format!("{plans}; create table other ()")).unwrap();
    let mut claimer = cluster.connect();
    claimer.batch_execute("begin; select sched.claim(max_claims => 1000)").unwrap();
    let mut other = cluster.connect();
    other.batch_execute("begin; drop table other").unwrap();
    db.batch_execute("select sched.drop_schedule('dropped', cancel_pending => true)").unwrap();
    claimer.batch_execute("rollback").unwrap();
    wait_for(&mut db, &format!("select sched.dispatch_due() >= 0 and not exists (select from {READY} r)"), SOON);
    assert_eq!(one::<i64>(&mut db, "select count(*) from sched.schedule_dropped"), 1);
    other.batch_execute("rollback").unwrap();
    settled(&mut db);
}

/// However many there are, and however long somebody's transaction is open: to look at them is no busy loop.
#[test]
fn many_drops_beside_an_open_transaction_are_looked_at_one_after_the_other() {
    let (cluster, mut db) = without_dispatch();
    let many = "select sched.create_schedule(n::text, 'never', 'job') from generate_series(1, 3000) n;
                select sched.drop_schedule(n::text, cancel_pending => true) from generate_series(1, 3000) n; create table other ()";
    db.batch_execute(many).unwrap();
    assert_eq!(one::<i64>(&mut db, "select count(*) from sched.schedule_dropped"), 3000);
    let mut other = cluster.connect();
    other.batch_execute("begin; drop table other").unwrap();
    let all =
        "select sched.dispatch_due() >= 0 and not exists (select from sched.schedule_dropped where until_xid is null)";
    wait_for(&mut db, all, SOON);
    let pauses = "select min(extract(epoch from retry_at - clock_timestamp()))::float8 from sched.schedule_dropped";
    let shortest: f64 = one(&mut db, pauses);
    other.batch_execute("rollback").unwrap();
    assert!(shortest > 15.0, "{shortest}");
}

/// Beside a dispatcher that fires it as fast as it can.
#[test]
fn after_the_commit_of_a_drop_nothing_of_a_busy_schedule_is_claimable() {
    let cluster = Cluster::new();
    let mut db = cluster.with_extension("postgres");
    db.batch_execute("select sched.define_job('job'); select sched.create_schedule('kept', 'every 100 milliseconds', 'job', catch_up => 'every_plan')").unwrap();
    for number in 0..60 {
        let name = format!("s{number}");
        db.batch_execute(&format!("select sched.create_schedule('{name}', 'every 3 milliseconds', 'job')")).unwrap();
        wait_for(&mut db, &format!("select count(*) > 2 from sched.ledger where schedule_name = '{name}'"), SOON);
        db.batch_execute(&format!("select sched.drop_schedule('{name}', cancel_pending => true)")).unwrap();
        assert_eq!(claimable(&mut db, &name), (0, 0), "{name}");
    }
    wait_for(&mut db, "select not exists (select from sched.schedule_dropped)", SOON);
    let open = "select count(*) from sched.ledger where status = 'PENDING' and schedule_name <> 'kept'";
    assert_eq!(one::<i64>(&mut db, open), 0);
    assert_eq!(one::<i64>(&mut db, &count_of(READY)) > 0, whole_grid(&mut db, "kept", "100 milliseconds") > 0);
}

/// A dump that is taken before anybody has cancelled what was left.
#[test]
fn nothing_of_a_dropped_schedule_is_claimable_in_a_copy() {
    let (cluster, mut db) = without_dispatch();
    due(&mut db, &["dropped"]);
    let mut fires = cluster.connect();
    fires.batch_execute("begin").unwrap();
    assert_eq!(one::<i64>(&mut fires, "select sched.dispatch_due()"), 1);
    db.batch_execute("select sched.drop_schedule('dropped', cancel_pending => true)").unwrap();
    fires.batch_execute("commit").unwrap();
    cluster.execute("create database copy");
    restore(&cluster, "copy", &dump(&cluster, "postgres", &[]));
    let mut copy = cluster.connect_as("postgres", "copy");
    copy.batch_execute("select sched.adopt()").unwrap();
    assert_eq!(claimable(&mut copy, "dropped"), (0, 0));
    settled(&mut copy);
    assert_eq!(one::<String>(&mut copy, "select string_agg(status, ' ') from sched.ledger"), "CANCELLED");
    assert_eq!(claimable(&mut db, "dropped"), (0, 0));
}

/// A month of minutes that have ended, and a backlog of somebody else's.
#[test]
fn to_cancel_what_is_open_takes_no_walk_through_what_else_waits() {
    let (_cluster, mut db) = without_dispatch();
    due(&mut db, &["s"]);
    db.batch_execute(
        "select sched.dispatch_due();
         insert into sched.ledger (key, job_name, scope_kind, scope_id, plan_time, queue, priority, payload, max_attempts, allow_stale_reentry,
                                   origin, owner, schedule_id, schedule_name, status, attempt, finished_at)
         select key, job_name, scope_kind, scope_id, plan_time - n * interval '1 minute', queue, priority, payload, max_attempts, true,
                origin, owner, schedule_id, schedule_name, 'SUCCESS', 1, now()
           from sched.ledger, generate_series(1, 43200) n;
         select sched.define_job('other', queue => 'other');
         select count(*) from sched.enqueue_many('other', array_fill('1'::jsonb, '{10000}'))",
    )
    .unwrap();
    db.batch_execute("set statement_timeout = '5s'; select sched.drop_schedule('s', cancel_pending => true)").unwrap();
    let open = "select array_agg(distinct status order by status)::text from sched.ledger where schedule_name = 's'";
    assert_eq!(one::<String>(&mut db, open), "{CANCELLED,SUCCESS}");
    db.batch_execute("select sched.dispatch_due()").unwrap();
    assert_eq!(one::<i64>(&mut db, &count_of(READY)), 10_000);
}

/// Of two sessions that create the same schedules in opposite orders, one creates them and one hears that they are there.
#[test]
fn creating_in_opposite_orders_is_no_deadlock() {
    let (cluster, mut db) = without_dispatch();
    let create = |names: [&'static str; 3]| {
        let specs: Vec<String> = names
            .iter()
            .map(|name| format!("{{\"schedule_name\": \"{name}\", \"clock\": \"never\", \"job_name\": \"job\"}}"))
            .collect();
        let statement = format!("select sched.create_schedules('[{}]')", specs.join(", "));
        let mut db = cluster.connect();
        thread::spawn(move || {
            let answer = db.query_one(&statement, &[]);
            answer.map(|row| row.get::<_, i64>(0)).map_err(|error| error.code().unwrap().code().to_owned())
        })
    };
    // Both have created one end of the list, or wait for it, when they come to the middle.
    let mut blocker = cluster.connect();
    let mut open = blocker.transaction().unwrap();
    open.batch_execute("select sched.create_schedule('m', 'never', 'job')").unwrap();
    let (up, down) = (create(["a", "m", "z"]), create(["z", "m", "a"]));
    wait_for(&mut db, "select count(*) = 2 from pg_locks where not granted", SOON);
    open.rollback().unwrap();
    let mut answers = [up.join().unwrap(), down.join().unwrap()];
    answers.sort();
    assert_eq!(answers, [Ok(3), Err("42710".to_owned())]);
}
