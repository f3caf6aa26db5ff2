//! Verdicts and timers on a live server: through crashes, beside dispatchers at work, and with schedules that are always due.

use scheduler_cluster_tests::scheduler::{one, rest, whole_grid, SOON};
use scheduler_cluster_tests::tables::*;
use scheduler_cluster_tests::{wait_for, wait_until, Client, Cluster, Shutdown};

/// A moment before which no plan time waits for a dispatcher: on a busy machine that takes a while.
fn decided(db: &mut Client) -> String {
    let moment: String = one(db, "select clock_timestamp()::text");
    let undecided = format!(
        "select not exists (select from {TIMER} t where next_plan_time <= '{moment}') and not exists (select from sched.schedule_change)"
    );
    wait_for(db, &undecided, SOON);
    moment
}

/// How many plan times of a schedule up to a moment were fired, and how many were skipped or wait for a run; each is one of them.
fn verdicts(db: &mut Client, schedule: &str, period: &str, until: &str) -> (i64, i64) {
    let query = format!(
        "select count(*), count(distinct e.plan_time), count(*) filter (where e.verdict = 'fired' and e.execution_id is not null),
                count(*) filter (where e.verdict in ('skipped', 'waiting') and e.reason is not null),
                (select count(*) from generate_series(s.created_at + interval '{period}', s.until, interval '{period}'))
           from (select *, timestamptz '{until}' as until from sched.schedule where schedule_name = '{schedule}') s,
                sched.explain(s.schedule_name, s.created_at, s.until) e
          group by s.created_at, s.until"
    );
    let row = db.query_one(&query, &[]).unwrap();
    let (all, distinct, fired, skipped, plans): (i64, i64, i64, i64, i64) =
        (row.get(0), row.get(1), row.get(2), row.get(3), row.get(4));
    assert_eq!((all, all, all), (distinct, fired + skipped, plans), "{schedule}: {fired} fired, {skipped} skipped");
    (fired, skipped)
}

#[test]
fn no_crash_leaves_a_plan_time_without_a_verdict() {
    let cluster = Cluster::builder().durable().start();
    let mut db = cluster.with_extension("postgres");
    db.batch_execute(
        "select sched.define_job('job');
         select sched.create_schedule('latest', 'every 50 milliseconds', 'job');
         select sched.create_schedule('each', 'every 50 milliseconds', 'job', catch_up => 'every_plan', max_plans_per_tick => 3);
         select sched.create_schedule('skip', 'every 50 milliseconds', 'job', overlap => 'skip');
         select sched.create_schedule('buffer', 'every 50 milliseconds', 'job', overlap => 'buffer_one');
         select sched.create_schedule('window', 'every 50 milliseconds', 'job', catch_up_window => '20 milliseconds');",
    )
    .unwrap();
    for round in 0..5 {
        wait_for(
            &mut db,
            &format!("select count(*) > {} from sched.execution where schedule_name = 'latest'", 5 * round),
            SOON,
        );
        // Runs end, so that skips of both kinds begin and end.
        db.batch_execute("select sched.cancel(id) from sched.execution where schedule_name in ('skip', 'buffer')")
            .unwrap();
        match round % 3 {
            0 => {
                cluster.crash();
                cluster.start();
            }
            1 => cluster.restart(Shutdown::Immediate),
            _ => cluster.restart(Shutdown::Fast),
        }
        db = cluster.connect();
    }
    let until = decided(&mut db);
    for schedule in ["latest", "each", "skip", "buffer", "window"] {
        let (fired, skipped) = verdicts(&mut db, schedule, "50 milliseconds", &until);
        println!("{schedule}: {fired} fired, {skipped} skipped");
        assert!(fired > 0 && (skipped > 0) == (schedule != "each"), "{schedule}: {fired} fired, {skipped} skipped");
    }
    whole_grid(&mut db, "each", "50 milliseconds");
}

/// While an edit's transaction stays open, the old clock goes on; once it is committed the new one holds since the edit.
#[test]
fn an_edit_that_is_committed_late_leaves_no_plan_time_without_a_verdict() {
    let cluster = Cluster::new();
    let mut db = cluster.with_extension("postgres");
    db.batch_execute(
        "select sched.define_job('job');
         select sched.create_schedule(name, 'every 200 milliseconds', 'job', catch_up => catch_up)
           from (values ('latest', 'latest_only'), ('each', 'every_plan')) v (name, catch_up)",
    )
    .unwrap();
    let mut editor = cluster.connect();
    for (round, period) in [70, 110, 130, 200].into_iter().enumerate() {
        editor
            .batch_execute(&format!(
                "begin; select sched.alter_schedule(name, 'every {period} milliseconds') from unnest('{{latest,each}}'::text[]) name"
            ))
            .unwrap();
        let before: i64 = one(&mut db, "select count(*) from sched.execution");
        wait_for(&mut db, &format!("select count(*) > {before} + 8 from sched.execution"), SOON);
        editor.batch_execute("commit").unwrap();
        let after: i64 = one(&mut db, "select count(*) from sched.execution");
        wait_for(&mut db, &format!("select count(*) > {after} + 8 from sched.execution"), SOON);
        wait_for(&mut db, "select not exists (select from sched.schedule_definition where not settled)", SOON);
        let until = decided(&mut db);
        for schedule in ["latest", "each"] {
            let query = format!(
                "select coalesce(string_agg(e.plan_time || ' ' || e.verdict || ' ' || coalesce(e.reason, ''), ', '), '')
                   from sched.schedule s, sched.explain(schedule_name, created_at, '{until}') e
                  where schedule_name = '{schedule}'
                    and not (e.verdict = 'fired' or (e.verdict = 'skipped' and (e.reason = 'replaced' or catch_up = 'latest_only')))"
            );
            let strange: String = one(&mut db, &query);
            assert_eq!(strange, "", "{schedule}, round {round}");
        }
    }
}

/// The same, with an edit that moves the schedule to another scope as well: what the old clock fired meanwhile is in the ledger by the old
/// scope's key, and is not fired again in the new one. What somebody else put into the old scope is no concern of the schedule's.
#[test]
fn an_edit_of_clock_and_scope_that_is_committed_late_fires_no_plan_twice() {
    let cluster = Cluster::new();
    let mut db = cluster.with_extension("postgres");
    db.batch_execute(
        "select sched.define_job('job');
         select sched.create_schedule(name, 'every 200 milliseconds', 'job', catch_up => 'every_plan', scope_kind => 'k', scope_id => name)
           from unnest('{s,other}'::text[]) name",
    )
    .unwrap();
    wait_for(&mut db, "select count(*) > 4 from sched.execution", SOON);
    let mut editor = cluster.connect();
    editor
        .batch_execute(
            "begin; select sched.alter_schedule('s', clock => 'every 100 milliseconds'); update sched.schedule set scope_id = 'new' where schedule_name = 's'",
        )
        .unwrap();
    let since: String = one(&mut editor, "select defined_at::text from sched.schedule where schedule_name = 's'");
    let fired = format!("select count(*) > 3 from sched.execution where schedule_name = 's' and plan_time > '{since}'");
    wait_for(&mut db, &fired, SOON);
    // Another schedule has the scope now: its plans there are not those of the first.
    editor
        .batch_execute(
            "update sched.schedule set scope_id = 's', clock = 'every 100 milliseconds from ' || to_char(
                        (select created_at from sched.schedule where schedule_name = 's') at time zone 'UTC', 'YYYY-MM-DD HH24:MI:SS.US+00')
              where schedule_name = 'other'; commit",
        )
        .unwrap();
    let marked: String = one(&mut db, "select (clock_timestamp() + interval '1 second')::text");
    for name in ["s", "other"] {
        let caught_up = format!(
            "select count(*) > 0 from sched.execution where schedule_name = '{name}' and plan_time > '{marked}'"
        );
        wait_for(&mut db, &caught_up, SOON);
        let (all, distinct): (i64, i64) = {
            let row = db
                .query_one(
                    "select count(*), count(distinct plan_time) from sched.execution where schedule_name = $1",
                    &[&name],
                )
                .unwrap();
            (row.get(0), row.get(1))
        };
        assert_eq!(all, distinct, "{name}: a plan time was fired twice");
    }
    let lost =
        format!("select count(*) filter (where verdict <> 'fired') from sched.explain('s', '{since}', '{marked}')");
    assert_eq!(one::<i64>(&mut db, &lost), 0, "plan times of the new clock");
    let by_others = format!(
        "select count(*) > 3 from sched.execution a join sched.execution b using (plan_time)
          where a.schedule_name = 's' and a.scope_id = 'new' and b.schedule_name = 'other' and b.scope_id = 's' and plan_time > '{since}'"
    );
    assert!(one::<bool>(&mut db, &by_others), "each fires the same plan times in its scope");
}

/// A timer that is made anew knows where it stood, also when the definition before it has fired later plans.
#[test]
fn a_rebuild_after_an_edit_that_was_committed_late_loses_no_plan() {
    let cluster = Cluster::builder().set("sched.enabled", "off").start();
    let mut db = cluster.with_extension("postgres");
    db.batch_execute(
        "select sched.define_job('job');
         select sched.create_schedule('s', 'every 200 milliseconds', 'job', catch_up => 'every_plan', max_plans_per_tick => 1);
         select sched.dispatch_due()",
    )
    .unwrap();
    let mut editor = cluster.connect();
    editor.batch_execute("begin; select sched.alter_schedule('s', clock => 'every 100 milliseconds')").unwrap();
    let since: String = one(&mut editor, "select defined_at::text from sched.schedule");
    // The old clock goes on, and gets well ahead of the edit.
    wait_until("fires of the old clock", SOON, || {
        let ahead = format!("select sched.dispatch_due() > -1 and max(plan_time) > timestamptz '{since}' + interval '1 second' from sched.execution");
        one::<Option<bool>>(&mut db, &ahead)?.then_some(())
    });
    editor.batch_execute("commit").unwrap();
    let marked: String = one(&mut db, "select clock_timestamp()::text");
    let timer = &format!("select concat_ws(' ', cursor_at, next_plan_time, buffered_plan, waiting) from {TIMER} t");
    let rebuilt = |db: &mut Client, when: &str| {
        let before: String = one(db, timer);
        db.batch_execute(REBUILT_TIMERS).unwrap();
        assert_eq!(one::<String>(db, timer), before, "{when}");
    };
    // Settled, and one plan of the new clock fired; then some more; then beyond all that the old one has fired.
    for fires in 1..4 {
        db.batch_execute("select sched.dispatch_due()").unwrap();
        rebuilt(&mut db, &format!("after {fires} fires"));
    }
    wait_until("fires of the new clock", SOON, || {
        let caught_up = format!(
            "select sched.dispatch_due() > -1 and max(plan_time) > timestamptz '{marked}' from sched.execution"
        );
        one::<Option<bool>>(&mut db, &caught_up)?.then_some(())
    });
    rebuilt(&mut db, "at last");
    let lost =
        format!("select count(*) filter (where verdict <> 'fired') from sched.explain('s', '{since}', '{marked}')");
    assert_eq!(one::<i64>(&mut db, &lost), 0);
}

#[test]
fn old_skips_and_definitions_are_forgotten_but_for_the_newest_skip() {
    let cluster = Cluster::builder().set("sched.history_retention", "2s").start();
    let mut db = cluster.with_extension("postgres");
    db.batch_execute(
        "select sched.define_job('job'); select sched.create_schedule('s', 'never', 'job'), sched.create_schedule('t', 'never', 'job');
         insert into sched.skip
         select schedule_id, defined_at, '2026-01-01'::timestamptz + n * interval '1 minute', '2026-01-01'::timestamptz + n * interval '1 minute', 1, 'missed'
           from sched.schedule, generate_series(1, 1500) n;
         insert into sched.schedule_definition (schedule_id, valid_from, valid_to, clock, time_zone, enabled, ownership, settled)
         select schedule_id, '2026-01-01'::timestamptz + n * interval '1 minute', '2026-01-01'::timestamptz + (n + 1) * interval '1 minute',
                'never', 'UTC', true, 'owned', true from sched.schedule, generate_series(1, 10) n;",
    )
    .unwrap();
    wait_for(
        &mut db,
        "select (select count(*) from sched.skip) = 2 and (select count(*) from sched.schedule_definition) = 0",
        SOON,
    );
    let newest: i64 = one(
        &mut db,
        "select count(*) from sched.skip where plan_to = '2026-01-01'::timestamptz + interval '1500 minutes'",
    );
    assert_eq!(newest, 2);
}

/// Also the plan that a late edit's clock fired is remembered, though what the old clock fired meanwhile is newer.
#[test]
fn what_tells_where_a_timer_stands_after_a_late_edit_is_not_forgotten() {
    let cluster = Cluster::builder().set("sched.history_retention", "2s").set("sched.enabled", "off").start();
    let mut db = cluster.with_extension("postgres");
    db.batch_execute(
        "select sched.define_job('job'); select sched.create_schedule('s', 'every 100 milliseconds', 'job'); select sched.dispatch_due()",
    )
    .unwrap();
    let plan: String = one(&mut db, "select (clock_timestamp() + interval '6 seconds')::text");
    let mut editor = cluster.connect();
    editor.batch_execute(&format!("begin; select sched.alter_schedule('s', clock => 'at {plan}')")).unwrap();
    let since = "select timestamptz '{plan}' > defined_at from sched.schedule".replace("{plan}", &plan);
    assert!(one::<bool>(&mut editor, &since), "the machine is too busy for this test");
    wait_until("fires of the old clock", SOON, || {
        let ahead = format!(
            "select sched.dispatch_due() > -1 and max(plan_time) > timestamptz '{plan}' + interval '1 second' from sched.execution"
        );
        one::<Option<bool>>(&mut db, &ahead)?.then_some(())
    });
    editor.batch_execute("commit").unwrap();
    let fired = format!("select count(*) = 1 from sched.execution where plan_time = '{plan}'");
    wait_until("the new clock's plan", SOON, || {
        db.batch_execute("select sched.dispatch_due()").unwrap();
        one::<bool>(&mut db, &fired).then_some(())
    });
    db.batch_execute("select sched.cancel(id) from sched.execution").unwrap();
    let all = "select count(*) from sched.ledger";
    assert!(one::<i64>(&mut db, all) > 2);
    // The walk finds all of them old enough.
    wait_for(&mut db, "select max(finished_at) < clock_timestamp() - interval '3 seconds' from sched.ledger", SOON);
    cluster.set("sched.enabled", "on");
    wait_for(&mut db, "select count(*) < 3 from sched.ledger", SOON);
    assert_eq!(one::<i64>(&mut db, all), 2, "the newest of the scope, and the newest of the new clock");
    assert!(one::<bool>(&mut db, &fired));
    let timer = &format!("select concat_ws(' ', cursor_at, next_plan_time, buffered_plan, waiting) from {TIMER} t");
    let before: String = one(&mut db, timer);
    db.batch_execute(REBUILT_TIMERS).unwrap();
    assert_eq!(one::<String>(&mut db, timer), before);
}

/// A user's transaction that dispatched and stays open has in hand what the dispatcher is about to forget.
#[test]
fn nobody_keeps_a_dispatcher_waiting_with_what_it_forgets() {
    let cluster = Cluster::builder().set("sched.history_retention", "2s").set("sched.enabled", "off").start();
    let mut db = cluster.with_extension("postgres");
    db.batch_execute("create role app login; select sched.grant_use('app')").unwrap();
    let mut app = cluster.connect_as("app", "postgres");
    app.batch_execute(
        "select sched.define_job('job'); select sched.create_schedule('mine', 'never', 'job'), sched.create_schedule('other', 'never', 'job');
         select sched.dispatch_due(); select sched.finish_success(execution_id, lease_token) from sched.try_claim('job', '2026-01-01');
         select sched.finish_success(execution_id, lease_token) from sched.try_claim('job', '2026-01-02')",
    )
    .unwrap();
    db.batch_execute(
        "insert into sched.skip
         select schedule_id, defined_at, '2026-01-01'::timestamptz + n * interval '1 day', '2026-01-01'::timestamptz + n * interval '1 day', 1, 'missed'
           from sched.schedule, generate_series(1, 10) n;
         insert into sched.schedule_definition (schedule_id, valid_from, valid_to, clock, time_zone, enabled, ownership, settled)
         select schedule_id, '2026-01-01'::timestamptz + n * interval '1 day', '2026-01-01'::timestamptz + (n + 1) * interval '1 day',
                'never', 'UTC', true, 'owned', true from sched.schedule, generate_series(1, 10) n",
    )
    .unwrap();
    // An execution is nothing that a user can lock: that is a superuser's hand.
    let mut hand = cluster.connect();
    hand.batch_execute("begin; select from sched.ledger where plan_time = '2026-01-01' for update").unwrap();
    app.batch_execute("begin; select sched.drop_schedule('mine'); select sched.dispatch_due()").unwrap();
    // Afterwards, or it could be among what has just been dispatched there.
    db.batch_execute("select sched.create_schedule('pulse', 'every 200 milliseconds', 'job')").unwrap();
    cluster.set("sched.enabled", "on");
    let left = "with s as (select schedule_id from sched.schedule where schedule_name = 'other')
        select (select count(*) from sched.skip join s using (schedule_id)) = 1
           and (select count(*) from sched.schedule_definition join s using (schedule_id)) = 0";
    wait_for(&mut db, left, SOON);
    for _ in 0..2 {
        let now: String = one(&mut db, "select clock_timestamp()::text");
        let fires = "select count(*) > 5 from sched.execution where schedule_name = 'pulse'";
        wait_for(&mut db, &format!("{fires} and plan_time > '{now}'"), SOON);
    }
    assert_eq!(one::<i64>(&mut db, "select count(*) from sched.ledger where plan_time = '2026-01-01'"), 1);
    // Given back, it goes with the next walk.
    app.batch_execute("rollback").unwrap();
    hand.batch_execute("commit").unwrap();
    wait_for(
        &mut db,
        "select (select count(*) from sched.skip join sched.schedule using (schedule_id) where schedule_name <> 'pulse') = 2
            and (select count(*) from sched.schedule_definition) = 0 and not exists (select from sched.ledger where plan_time = '2026-01-01')",
        SOON,
    );
}

#[test]
fn timers_are_made_anew_beside_dispatchers_and_edits() {
    let cluster = Cluster::new();
    let mut db = cluster.with_extension("postgres");
    db.batch_execute(
        "select sched.define_job('job');
         select sched.create_schedule('s' || n, 'every 100 milliseconds', 'job', catch_up => 'every_plan') from generate_series(1, 20) n",
    )
    .unwrap();
    let mut editor = cluster.connect();
    for round in 0..40 {
        if round % 4 == 0 {
            db.batch_execute(REBUILT_TIMERS).unwrap();
        } else {
            let armed: i64 = one(&mut db, "select sched.rebuild()");
            assert_eq!(armed, 20);
        }
        editor
            .batch_execute(
                "select sched.alter_schedule('s1', payload => '[1]'), sched.alter_schedule('s2', delay => '10 ms')",
            )
            .unwrap();
        editor.batch_execute("select sched.dispatch_due()").unwrap();
    }
    for n in 1..=20 {
        let name = format!("s{n}");
        wait_for(&mut db, &format!("select count(*) > 5 from sched.execution where schedule_name = '{name}'"), SOON);
        whole_grid(&mut db, &name, "100 milliseconds");
    }
}

#[test]
fn a_rebuild_waits_for_dispatchers_and_they_for_it() {
    let cluster = Cluster::new();
    let mut db = cluster.with_extension("postgres");
    db.batch_execute("select sched.define_job('job'); select sched.create_schedule('s', 'every 1 hour', 'job')")
        .unwrap();
    rest(&mut db);
    db.batch_execute("begin; select sched.rebuild()").unwrap();
    // An edit does not wait; who dispatches it does.
    let mut other = cluster.connect();
    other.batch_execute("select sched.alter_schedule('s', clock => 'every 2 hours')").unwrap();
    wait_for(
        &mut other,
        &format!("select count(*) > 0 from pg_locks where not granted and relation = '{TIMER_TABLE}'::regclass"),
        SOON,
    );
    db.batch_execute("commit").unwrap();
    wait_for(
        &mut other,
        "select state = 'armed' and next_plan_time > now() + interval '90 minutes' from sched.schedules",
        SOON,
    );
    let refused = other
        .batch_execute("create role r; select sched.grant_use('r'); set role r; select sched.rebuild()")
        .unwrap_err();
    assert_eq!(refused.code().unwrap().code(), "42501");
}

#[test]
fn a_schedule_that_is_always_due_stalls_nobody() {
    let cluster = Cluster::new();
    let mut db = cluster.with_extension("postgres");
    db.batch_execute(
        "select sched.define_job('job'), sched.define_job('hog', 'notify', 'nobody');
         select sched.create_schedule('hog', 'every 1 microsecond', 'hog');
         select sched.create_schedule('s', 'every 200 milliseconds', 'job', catch_up => 'every_plan')",
    )
    .unwrap();
    wait_for(&mut db, "select count(*) >= 10 from sched.execution where schedule_name = 's'", SOON);
    whole_grid(&mut db, "s", "200 milliseconds");
    // Settings are heard of, although there is always something to do.
    cluster.set("sched.enabled", "off");
    let mut last: i64 = -1;
    wait_until("the hog to stop", SOON, || {
        let now: i64 =
            one(&mut db, "select count(*) from sched.execution where created_at > now() - interval '1 second'");
        let stopped = now == 0 && last == 0;
        last = now;
        stopped.then_some(())
    });
    let skips: i64 = one(
        &mut db,
        "select count(*) from sched.skip k join sched.schedule s using (schedule_id) where schedule_name = 'hog'",
    );
    let counted: i64 = one(&mut db, "select sum(count)::bigint from sched.skipped where schedule_name = 'hog'");
    println!("{counted} plans in {skips} rows");
    assert!(counted > 1_000_000);
}

#[test]
fn what_a_late_pause_was_overtaken_by_does_not_count_as_paused() {
    let cluster = Cluster::new();
    let mut db = cluster.with_extension("postgres");
    db.batch_execute("select sched.define_job('job'); select sched.create_schedule('s', 'every 300 milliseconds', 'job', catch_up => 'every_plan')").unwrap();
    let mut editor = cluster.connect();
    editor.batch_execute("begin; select sched.pause('s')").unwrap();
    let since: String = one(&mut db, "select clock_timestamp()::text");
    wait_for(&mut db, &format!("select count(*) > 2 from sched.execution where plan_time > '{since}'"), SOON);
    editor.batch_execute("commit").unwrap();
    wait_for(&mut db, "select state = 'paused' from sched.schedules", SOON);
    wait_for(&mut db, "select sum(count) > 2 from sched.skipped", SOON);
    let both = "select count(*) from sched.skipped join sched.execution on plan_time between plan_from and plan_to";
    assert_eq!(one::<i64>(&mut db, both), 0, "while it is paused");
    db.batch_execute("select sched.resume('s')").unwrap();
    let until = decided(&mut db);
    assert_eq!(one::<i64>(&mut db, both), 0, "afterwards");
    let (_, skipped) = verdicts(&mut db, "s", "300 milliseconds", &until);
    assert_eq!(one::<i64>(&mut db, "select sum(count)::bigint from sched.skipped"), skipped);
}
