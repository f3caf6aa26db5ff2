//! Each incident opens one alert and resolves it once, and those who listen hear of both; through kills, pauses and drops.

use postgres::fallible_iterator::FallibleIterator as _;
use scheduler_cluster_tests::proc::{self, Signal};
use scheduler_cluster_tests::scheduler::{dispatcher, one, rest, switch_off, SOON};
use scheduler_cluster_tests::tables::*;
use scheduler_cluster_tests::{wait_for, wait_until, Client, Cluster, Shutdown};
use std::collections::BTreeMap;
use std::time::Duration;

/// What a client that listens to alerts has heard of what was committed before now.
fn heard(listener: &mut Client, db: &mut Client) -> Vec<String> {
    db.batch_execute("notify \"sched:alerts\", 'the last one'").unwrap();
    let mut payloads = Vec::new();
    let mut notifications = listener.notifications();
    let mut all = notifications.timeout_iter(SOON);
    loop {
        let next = all.next().unwrap().expect("the last notification comes");
        assert_eq!(next.channel(), "sched:alerts");
        if next.payload() == "the last one" {
            return payloads;
        }
        payloads.push(next.payload().to_owned());
    }
}

/// Each alert was told of as often as it should: opened, and resolved where it is.
fn told_once(db: &mut Client, payloads: Vec<String>) {
    let mut expected: Vec<String> = db
        .query("select alert_id || ' opened' from sched.alerts union all select alert_id || ' resolved' from sched.alerts where resolved_at is not null", &[])
        .unwrap()
        .iter()
        .map(|row| row.get(0))
        .collect();
    let mut payloads = payloads;
    expected.sort_unstable();
    payloads.sort_unstable();
    assert!(expected == payloads, "{} notifications of {} transitions", payloads.len(), expected.len());
}

/// How many alerts of a kind are open, and how many there were.
fn count(db: &mut Client, kind: &str) -> (i64, i64) {
    let query = "select count(*) filter (where resolved_at is null), count(*) from sched.alerts where kind = $1";
    let row = db.query_one(query, &[&kind]).unwrap();
    (row.get(0), row.get(1))
}

/// A process that dispatches dies in the middle of whatever it does.
fn kill(db: &mut Client) {
    let pid = wait_until("a dispatcher", SOON, || dispatcher(db));
    db.execute("select pg_terminate_backend($1)", &[&pid]).unwrap();
}

/// Schedules of this name and number.
fn create(db: &mut Client, kind: &str, incidents: i64, clock: &str, more: &str) {
    db.batch_execute(&format!(
        "select sched.define_job('{kind}', queue => '{kind}', max_attempts => 1, stale_timeout => '1 day');
         select sched.create_schedule('{kind} ' || i, '{clock}', '{kind}', {more}) from generate_series(1, {incidents}) i"
    ))
    .unwrap();
}

const FIRE: &str = "select count(sched.fire_now(schedule_name)) from sched.schedules where job_name = ";
const CLAIM: &str = "create temp table claimed as select * from sched.claim('KIND', 100000); select 1 / (count(*) = INCIDENTS)::int from claimed";
const SUCCEED: &str =
    "select sched.finish_success_many(array_agg(execution_id), array_agg(lease_token)) from claimed; drop table claimed";
const FAIL: &str =
    "select count(sched.finish_failure(execution_id, lease_token, 'smtp', 'refused') is null) from claimed; drop table claimed";

/// What happens for each kind: what makes it so, and what ends it.
fn incidents_of(kind: &str, incidents: i64) -> [String; 2] {
    let claim = CLAIM.replace("KIND", kind).replace("INCIDENTS", &incidents.to_string());
    let fire = format!("{FIRE}'{kind}'");
    match kind {
        "late" => [fire, format!("{claim}; {SUCCEED}")],
        "long" => [format!("{fire}; {claim}"), SUCCEED.to_owned()],
        "failed" => [format!("{fire}; {claim}; {FAIL}"), format!("{fire}; {claim}; {SUCCEED}")],
        // As if they had been created two hours ago.
        "no_success" => [
            format!(
                "begin; alter table sched.schedule disable trigger schedule_before_update;
                 update sched.schedule set updated_at = updated_at - interval '2 hours' where job_name = '{kind}';
                 alter table sched.schedule enable always trigger schedule_before_update;
                 insert into sched.alert_watch (due_at, schedule_id) select '-infinity', schedule_id from sched.schedule where job_name = '{kind}';
                 commit"
            ),
            format!("{fire}; {claim}; {SUCCEED}"),
        ],
        "parked" => [
            format!("update sched.schedule set clock = 'nonsense' where job_name = '{kind}'"),
            format!("update sched.schedule set clock = 'never' where job_name = '{kind}'"),
        ],
        "failing" => [
            "alter table sched.ledger add constraint failing check (job_name <> 'failing') not valid".to_owned(),
            // At once, however often it has failed by then.
            format!("alter table sched.ledger drop constraint failing; update {TIMER_TABLE} set fire_at = clock_timestamp() where error_count > 0; {TIMERS_ARE_NEW}"),
        ],
        other => panic!("no such kind: {other}"),
    }
}

fn each_incident(incidents: i64, patience: Duration) {
    let cluster = Cluster::new();
    let mut db = cluster.with_extension("postgres");
    let mut listener = cluster.connect();
    listener.batch_execute("listen \"sched:alerts\"").unwrap();
    create(&mut db, "late", incidents, "never", "max_lateness => '100 milliseconds'");
    create(&mut db, "long", incidents, "never", "max_duration => '100 milliseconds'");
    create(&mut db, "no_success", incidents, "never", "expect_success_within => '1 hour'");
    create(&mut db, "failed", incidents, "never", "payload => '{}'");
    create(&mut db, "parked", incidents, "never", "payload => '{}'");
    create(&mut db, "failing", incidents, "every 1 second", "payload => '{}'");
    let kinds = ["late", "long", "no_success", "failed", "parked", "failing"];
    for kind in kinds {
        let [begins, ends] = incidents_of(kind, incidents);
        db.batch_execute(&begins).unwrap();
        kill(&mut db);
        wait_until(&format!("{incidents} open alerts of {kind}"), patience, || {
            (count(&mut db, kind) == (incidents, incidents)).then_some(())
        });
        db.batch_execute(&ends).unwrap();
        kill(&mut db);
        wait_until(&format!("{incidents} resolved alerts of {kind}"), patience, || {
            (count(&mut db, kind) == (0, incidents)).then_some(())
        });
    }
    for kind in kinds {
        assert_eq!(count(&mut db, kind), (0, incidents), "{kind}");
        let schedules = "select count(distinct schedule_name) from sched.alerts where kind = $1";
        assert_eq!(db.query_one(schedules, &[&kind]).unwrap().get::<_, i64>(0), incidents, "{kind}");
    }
    let payloads = heard(&mut listener, &mut db);
    told_once(&mut db, payloads);
    let wrong: i64 = one(
        &mut db,
        "select count(*) from sched.alerts
          where (execution_id is null) <> (kind in ('no_success', 'parked', 'failing')) or since > resolved_at or acknowledged_until is not null",
    );
    assert_eq!(wrong, 0);
}

#[test]
fn each_incident_opens_one_alert_and_resolves_it_once() {
    each_incident(30, SOON);
}

#[test]
#[ignore]
fn long_a_thousand_incidents_of_each_kind_open_one_alert_each_and_resolve_it_once() {
    each_incident(1000, Duration::from_secs(300));
}

#[test]
fn a_run_that_is_claimed_in_time_calls_for_nothing_and_the_next_one_is_looked_at_too() {
    let cluster = Cluster::new();
    let mut db = cluster.with_extension("postgres");
    // A control, which says when it is late for sure.
    db.batch_execute(
        "select sched.define_job('j'), sched.define_job('nobody', queue => 'nobody');
         select sched.schedule_sql('in time', 'every 1 second', 'select 1');
         select sched.alter_schedule('in time', max_lateness => '5 minutes', max_duration => '5 minutes', expect_success_within => '5 minutes');
         select sched.create_schedule('planned', 'every 1 second', 'nobody', max_lateness => '500 milliseconds', catch_up => 'every_plan')",
    )
    .unwrap();
    // The schedule fires by its clock; what it fires first is late first, and each of its runs has an alert of its own.
    wait_for(&mut db, "select count(*) = 1 from sched.alerts where kind = 'late' and resolved_at is null", SOON);
    let first: String = one(&mut db, "select execution_id::text from sched.alerts where kind = 'late'");
    let oldest: String =
        one(&mut db, "select id::text from sched.execution where schedule_name = 'planned' order by plan_time limit 1");
    assert_eq!(first, oldest);
    wait_for(
        &mut db,
        "select count(*) > 2 from sched.late where execution_id is not null and late_by > '500 milliseconds'",
        SOON,
    );
    db.batch_execute("select sched.claim('nobody')").unwrap();
    wait_for(
        &mut db,
        "select count(*) = 2 and count(resolved_at) = 1 from sched.alerts where schedule_name = 'planned'",
        SOON,
    );
    wait_for(&mut db, "select count(*) > 3 from sched.history where schedule_name = 'in time'", SOON);
    assert_eq!(one::<i64>(&mut db, "select count(*) from sched.alerts where schedule_name = 'in time'"), 0);

    // An edit that asks for nothing any more, and one that renames.
    db.batch_execute("select sched.alter_schedule('planned', new_name => 'other')").unwrap();
    assert_eq!(one::<i64>(&mut db, "select count(*) from sched.alerts where schedule_name = 'other'"), 2);
    db.batch_execute("select sched.alter_schedule('other', reset => '{max_lateness}')").unwrap();
    wait_for(&mut db, "select count(*) = count(resolved_at) from sched.alerts where schedule_name = 'other'", SOON);
    wait_for(&mut db, "select not exists (select from sched.alert_state join sched.schedule using (schedule_id) where schedule_name = 'other')", SOON);
}

#[test]
fn pause_and_drop_resolve_and_what_is_paused_is_silent() {
    let cluster = Cluster::new();
    let mut db = cluster.with_extension("postgres");
    db.batch_execute(
        "select sched.define_job('j', queue => 'q', max_attempts => 1, stale_timeout => '1 day');
         select sched.create_schedule(name, 'never', 'j', max_lateness => '10 milliseconds', ownership => coalesce(ownership, 'owned'))
           from (values ('paused', null), ('dropped', null), ('silent', null), ('external', 'external'), ('control', null)) as s (name, ownership);
         select sched.pause('silent');
         select sched.fire_now(schedule_name) from sched.schedules",
    )
    .unwrap();
    let open = "select coalesce(string_agg(schedule_name, ' ' order by schedule_name), '') from sched.alerts where resolved_at is null";
    let opened = "select coalesce(string_agg(schedule_name, ' ' order by schedule_name), '') from sched.alerts";
    wait_for(&mut db, &format!("select ({open}) = 'control dropped paused'"), SOON);
    db.batch_execute("select sched.pause('paused'), sched.drop_schedule('dropped')").unwrap();
    wait_for(&mut db, &format!("select ({open}) = 'control'"), SOON);
    assert_eq!(one::<String>(&mut db, opened), "control dropped paused");
    // What fails while it is paused is not told of, nor when it is resumed; a failure from then on is.
    let fail = "select count(sched.finish_failure(execution_id, lease_token, 'x') is null) from sched.claim('q', 100)";
    db.batch_execute(fail).unwrap();
    wait_for(&mut db, "select count(*) > 0 from sched.alerts where kind = 'failed'", SOON);
    let failed = "select string_agg(schedule_name, ' ' order by alert_id) from sched.alerts where kind = 'failed'";
    assert_eq!(one::<String>(&mut db, failed), "control");
    db.batch_execute("select sched.resume('paused'), sched.resume('silent')").unwrap();
    rest(&mut db);
    assert_eq!(one::<String>(&mut db, failed), "control");
    db.batch_execute(&format!("select sched.fire_now('silent'); {fail}")).unwrap();
    wait_for(&mut db, &format!("select ({failed}) = 'control silent'"), SOON);
    // One that is over at once is a pause as well.
    db.batch_execute("begin; select sched.pause('silent'); select sched.resume('silent'); commit").unwrap();
    wait_for(&mut db, &format!("select ({open}) = 'control'"), SOON);
}

#[test]
fn an_alert_job_is_given_each_alert_once_and_never_its_own() {
    let cluster = Cluster::new();
    let mut db = cluster.with_extension("postgres");
    db.batch_execute(
        "select sched.define_job('work', queue => 'work', max_attempts => 1), sched.define_job('tell', queue => 'tell', max_attempts => 1),
                sched.define_job('news', 'notify', 'the news');
         select sched.create_schedule('told', 'never', 'work', alert_job => 'tell'),
                sched.create_schedule('itself', 'never', 'work', alert_job => 'work'),
                sched.create_schedule('telling', 'never', 'tell', alert_job => 'tell'),
                sched.create_schedule('notified', 'never', 'work', alert_job => 'news');
         listen \"the news\";
         select sched.fire_now(schedule_name) from sched.schedules;
         select count(sched.finish_failure(execution_id, lease_token, 'smtp', 'refused') is null) from sched.claim('work', 100);
         select count(sched.finish_failure(execution_id, lease_token, 'smtp', 'refused') is null) from sched.claim('tell', 100)",
    )
    .unwrap();
    wait_for(&mut db, "select count(*) = 4 from sched.alerts where kind = 'failed'", SOON);
    let given = db
        .query_one(
            "select count(*), min(scope_id), min(e.payload::text), bool_and(e.payload = jsonb_build_object('alert_id', a.alert_id, 'kind', a.kind, 'schedule_name',
                    a.schedule_name, 'since', a.since, 'message', a.message, 'execution_id', a.execution_id))
               from sched.execution e, sched.alerts a
              where e.schedule_name is null and e.job_name = 'tell' and a.schedule_name = 'told'",
            &[],
        )
        .unwrap();
    assert!(given.get::<_, bool>(3), "{}", given.get::<_, String>(2));
    assert_eq!(given.get::<_, i64>(0), 1, "one execution, of the one whose job it is not");
    assert_eq!(
        one::<i64>(&mut db, "select count(*) from sched.execution where schedule_name is null and job_name = 'work'"),
        0
    );
    assert_eq!(
        one::<i64>(&mut db, "select count(*) from sched.execution where schedule_name is null and job_name = 'news'"),
        1
    );
    let news = db.notifications().timeout_iter(SOON).next().unwrap().expect("the news");
    assert!(news.payload().contains("\"notified\""), "{}", news.payload());
    // That execution fails for good: it is no schedule's, and nobody is told.
    let before: i64 = one(&mut db, "select count(*) from sched.alerts");
    db.batch_execute(
        "select sched.finish_failure(execution_id, lease_token, 'smtp', 'refused') from sched.claim('tell', 100)",
    )
    .unwrap();
    rest(&mut db);
    assert_eq!(one::<i64>(&mut db, "select count(*) from sched.alerts"), before);
}

#[test]
fn a_crash_and_a_promotion_keep_what_is_open() {
    let primary = Cluster::builder().durable().start();
    let mut db = primary.with_extension("postgres");
    db.batch_execute(
        "select sched.define_job('j', queue => 'q', max_attempts => 1, stale_timeout => '1 day');
         select sched.create_schedule('s', 'never', 'j', max_lateness => '10 milliseconds'), sched.create_schedule('f', 'never', 'j');
         select sched.fire_now('f');
         select sched.finish_failure(execution_id, lease_token, 'x') from sched.claim('q');
         select sched.fire_now('s')",
    )
    .unwrap();
    wait_for(&mut db, "select count(*) = 2 from sched.alerts where resolved_at is null", SOON);
    drop(db);
    primary.restart(Shutdown::Immediate);
    let mut db = primary.connect();
    let standby = Cluster::builder().start_standby_of(&primary);
    let mut reader = standby.connect();
    wait_for(&mut reader, "select count(*) = 2 from sched.alerts where resolved_at is null", SOON);
    assert_eq!(one::<String>(&mut reader, "select string_agg(schedule_name, ' ') from sched.late"), "s");
    db.batch_execute("select sched.fire_now('f'); select sched.claim('q', 2)").unwrap();
    wait_for(&mut db, "select string_agg(kind, ' ') = 'failed' from sched.alerts where resolved_at is null", SOON);
    wait_for(&mut reader, "select string_agg(kind, ' ') = 'failed' from sched.alerts where resolved_at is null", SOON);
    let leases = &format!("select execution_id::text, lease_token::text from {LEASE} l");
    let leases: BTreeMap<String, String> =
        db.query(leases, &[]).unwrap().iter().map(|row| (row.get(0), row.get(1))).collect();
    drop((db, reader));
    primary.stop(Shutdown::Fast);
    standby.promote();
    let mut db = standby.connect();
    for (id, token) in leases {
        db.batch_execute(&format!("select sched.finish_success('{id}', '{token}')")).unwrap();
    }
    wait_for(&mut db, "select count(*) = 0 from sched.alerts where resolved_at is null", SOON);
    assert_eq!(one::<i64>(&mut db, "select count(*) from sched.alerts"), 2);
}

#[test]
fn what_is_late_is_seen_without_a_dispatcher_and_told_when_it_is_back() {
    let cluster = Cluster::new();
    let mut db = cluster.with_extension("postgres");
    db.batch_execute(
        "select sched.define_job('j', queue => 'q');
         select sched.create_schedule('s', 'every 1 second', 'j', max_lateness => '100 milliseconds')",
    )
    .unwrap();
    wait_for(&mut db, "select count(*) > 0 from sched.execution", SOON);
    let pid = dispatcher(&mut db).unwrap();
    proc::freeze(pid);
    wait_for(&mut db, "select count(*) filter (where execution_id is null) = 1 and count(*) > 1 from sched.late where late_by > '1 second'", SOON);
    db.batch_execute("select sched.pause('s')").unwrap();
    assert_eq!(one::<i64>(&mut db, "select count(*) from sched.late"), 0);
    db.batch_execute("select sched.resume('s')").unwrap();
    proc::kill(pid, Signal::CONT);
    wait_for(&mut db, "select count(*) = 1 from sched.alerts where kind = 'late' and resolved_at is null", SOON);
    switch_off(&cluster, &mut db);
    db.batch_execute("select sched.claim('q', 1000)").unwrap();
    assert_eq!(one::<i64>(&mut db, "select count(*) from sched.alerts where resolved_at is null"), 1);
    cluster.set("sched.enabled", "on");
    wait_for(&mut db, "select count(*) > 0 from sched.alerts where resolved_at is not null", SOON);
}

#[test]
fn health_tells_of_what_nobody_has_acknowledged() {
    let cluster = Cluster::new();
    let mut db = cluster.with_extension("postgres");
    db.batch_execute(
        "create role watcher login; create role other login; select sched.grant_monitor('watcher'), sched.grant_use('other');
         select sched.define_job('j', queue => 'q', max_attempts => 1);
         select sched.create_schedule('s', 'never', 'j'), sched.create_schedule('p', 'never', 'j');
         select sched.fire_now('s');
         select sched.finish_failure(execution_id, lease_token, 'smtp', 'the password is secret') from sched.claim('q')",
    )
    .unwrap();
    let says = "select severity || ': ' || message from sched.health() where component = 'schedules'";
    wait_for(&mut db, "select count(*) = 1 from sched.alerts", SOON);
    assert_eq!(one::<String>(&mut db, says), "warning: open alerts: 1 failed; the worst is \"s\"");
    let mut watcher = cluster.connect_as("watcher", "postgres");
    let mut other = cluster.connect_as("other", "postgres");
    assert_eq!(one::<String>(&mut other, says), "warning: open alerts: 1 failed");
    let message = "select message from sched.alerts";
    assert!(one::<String>(&mut db, message).ends_with(" has failed for good (smtp): the password is secret"));
    assert!(one::<String>(&mut watcher, message).ends_with(" has failed for good (smtp)"));
    assert_eq!(one::<i64>(&mut other, "select count(*) from sched.alerts"), 0);
    let id: i64 = one(&mut db, "select alert_id from sched.alerts");
    let page = |client: &mut Client| one::<String>(client, "select sched.report()");
    assert!(page(&mut db).contains("Open alerts <b>1</b>") && page(&mut watcher).contains("Open alerts <b>1</b>"));
    assert!(page(&mut other).contains("Open alerts <b>0</b>"));
    db.batch_execute(&format!("select sched.acknowledge({id}, 'infinity')")).unwrap();
    assert!(one::<String>(&mut db, says).starts_with("ok: "));
    db.batch_execute(&format!("select sched.acknowledge({id}, clock_timestamp())")).unwrap();
    assert!(one::<String>(&mut db, says).starts_with("warning: "));
    assert_eq!(one::<i64>(&mut db, "select count(acknowledged_until) from sched.alerts"), 0);
    // Parked schedules, too.
    db.batch_execute(&format!("select sched.acknowledge({id}, clock_timestamp() + interval '1 hour'); update sched.schedule set clock = 'nonsense' where schedule_name = 'p'")).unwrap();
    wait_for(&mut db, "select count(*) = 1 from sched.alerts where kind = 'parked'", SOON);
    assert_eq!(one::<String>(&mut db, says), "warning: 1 parked, 0 failing; the worst is \"p\"");
    db.batch_execute("select sched.acknowledge(alert_id, 'infinity') from sched.alerts where kind = 'parked'").unwrap();
    assert!(one::<String>(&mut db, says).starts_with("ok: "));
}

/// Nobody keeps a dispatcher waiting who has an alert's row in hand, and it is resolved when he has let go.
#[test]
fn an_open_acknowledgement_delays_only_its_own_alert() {
    let cluster = Cluster::new();
    let mut db = cluster.with_extension("postgres");
    db.batch_execute(
        "select sched.define_job('j', queue => 'q');
         select sched.create_schedule('a', 'never', 'j', max_lateness => '1 millisecond'), sched.create_schedule('b', 'never', 'j', max_lateness => '1 millisecond');
         select sched.fire_now('a'), sched.fire_now('b')",
    )
    .unwrap();
    wait_for(&mut db, "select count(*) = 2 from sched.alerts where resolved_at is null", SOON);
    let mut holder = cluster.connect();
    holder
        .batch_execute(
            "begin; select sched.acknowledge(alert_id, 'infinity') from sched.alerts where schedule_name = 'a'",
        )
        .unwrap();
    db.batch_execute("select sched.claim('q', 2)").unwrap();
    wait_for(&mut db, "select string_agg(schedule_name, ' ') = 'a' from sched.alerts where resolved_at is null", SOON);
    db.batch_execute("select sched.drop_schedule('a')").unwrap();
    wait_for(&mut db, &format!("select count(*) = 0 from {TIMER} t join sched.alert_state using (schedule_id) where schedule_id not in (select schedule_id from sched.schedule)"), SOON);
    holder.batch_execute("commit").unwrap();
    wait_for(&mut db, "select count(*) = 0 from sched.alerts where resolved_at is null", SOON);
}

/// Where nothing is to be told, a dispatcher does nothing for it.
#[test]
fn nothing_is_looked_at_where_nothing_is_asked_for() {
    let cluster = Cluster::new();
    let mut db = cluster.with_extension("postgres");
    db.batch_execute(
        "select sched.define_job('j', queue => 'q', max_attempts => 1);
         select sched.create_schedule('s' || i, 'every 100 milliseconds', 'j') from generate_series(1, 20) i",
    )
    .unwrap();
    wait_for(&mut db, "select count(*) > 100 from sched.execution", SOON);
    db.batch_execute("select sched.finish_success(execution_id, lease_token) from sched.claim('q', 50)").unwrap();
    db.batch_execute("select sched.pause(schedule_name) from sched.schedules; select sched.resume('s1'); select sched.drop_schedule('s1')").unwrap();
    rest(&mut db);
    for table in ["alert", "alert_watch", "alert_state"] {
        assert_eq!(one::<i64>(&mut db, &format!("select count(*) from sched.{table}")), 0, "{table}");
    }
    let used = "select coalesce(sum(n_tup_ins), 0)::bigint from pg_stat_user_tables where relname in ('alert', 'alert_watch', 'alert_state')";
    assert_eq!(one::<i64>(&mut db, used), 0);
}

/// Resolved alerts go with history; open ones stay.
#[test]
fn retention_forgets_what_was_resolved() {
    let cluster = Cluster::builder().set("sched.history_retention", "1s").set("sched.tick_interval", "1s").start();
    let mut db = cluster.with_extension("postgres");
    db.batch_execute(
        "select sched.define_job('j', queue => 'q');
         select sched.create_schedule('a', 'never', 'j', max_lateness => '1 millisecond'), sched.create_schedule('b', 'never', 'j', max_lateness => '1 millisecond');
         select sched.fire_now('a'), sched.fire_now('b')",
    )
    .unwrap();
    wait_for(&mut db, "select count(*) = 2 from sched.alerts where resolved_at is null", SOON);
    db.batch_execute("select sched.pause('a')").unwrap();
    wait_for(&mut db, "select string_agg(schedule_name, ' ') = 'b' from sched.alerts", SOON);
}
