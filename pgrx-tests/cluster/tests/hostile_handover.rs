//! I7 as attacks by a role whose job a superuser takes over, by a role that may enqueue a job of another, and by one that has very many executions to
//! cancel.

use postgres::error::SqlState;
use scheduler_cluster_tests::scheduler::{one, SOON};
use scheduler_cluster_tests::{refusal, refused, wait_for, Client, Cluster};

/// A superuser `boss` and roles that may schedule, `evil` and `victim`; `guest` was granted nothing.
fn server() -> (Cluster, Client, Client) {
    let cluster = Cluster::new();
    let mut db = cluster.with_extension("postgres");
    db.batch_execute(
        "create role evil login; create role victim login; create role guest login; create role boss superuser login;
         select sched.grant_use('evil'), sched.grant_use('victim')",
    )
    .unwrap();
    let evil = cluster.connect_as("evil", "postgres");
    (cluster, db, evil)
}

const EVIL: &str = "select rolsuper from pg_roles where rolname = 'evil'";

#[test]
fn a_superuser_that_takes_a_job_over_runs_nothing_that_its_owner_wrote() {
    let (cluster, mut db, mut evil) = server();
    db.batch_execute("grant create on schema public to evil").unwrap();
    evil.batch_execute(
        "create function public.lower(text) returns text language plpgsql as $$ begin alter role evil superuser; return ''; end $$;
         select sched.define_job('settings', 'sql', 'select 1', settings => '{\"search_path\": \"public, pg_catalog\"}');
         select sched.schedule_sql('nightly', 'every 1 second', 'alter role evil superuser')",
    )
    .unwrap();
    let mut boss = cluster.connect_as("boss", "postgres");
    let hint = refusal(&mut boss, "select sched.schedule_sql('nightly', '@daily', 'select 2')");
    assert!(hint.hint().unwrap_or_default().contains("command => ..."), "{hint:?}");
    for (job, more) in [("nightly", ""), ("settings", ""), ("nightly", ", settings => '{}'")] {
        let call = format!("select sched.alter_job('{job}', owner => 'boss'{more})");
        assert_eq!(refused(&mut boss, &call), SqlState::INSUFFICIENT_PRIVILEGE, "{call}");
    }
    // The command is the superuser's, and so are the settings, which are none.
    boss.batch_execute(
        "select sched.alter_job('settings', owner => 'boss', command => 'select lower(''X''::text)');
         select sched.enqueue('settings')",
    )
    .unwrap();
    wait_for(
        &mut db,
        "select count(*) > 0 from sched.history where job_name = 'settings' and status = 'SUCCESS'",
        SOON,
    );
    wait_for(&mut db, "select count(*) > 1 from sched.history where job_name = 'nightly'", SOON);
    assert!(!one::<bool>(&mut db, EVIL));
    // A role that is no superuser gets the command as it is: the caller has read it.
    boss.batch_execute("select sched.alter_job('nightly', owner => 'victim')").unwrap();
}

#[test]
fn what_the_owner_before_gave_others_ends_with_the_hand_over() {
    let (cluster, mut db, mut evil) = server();
    evil.batch_execute(
        "select sched.define_job('told', 'sql', 'select 1'), sched.define_job('work'), sched.define_job('gone');
         select sched.create_schedule('watched', '@daily', 'work', alert_job => 'told');
         select sched.grant_enqueue('told', 'guest'), sched.grant_enqueue('gone', 'guest'), sched.drop_job('gone')",
    )
    .unwrap();
    let mut boss = cluster.connect_as("boss", "postgres");
    let mut guest = cluster.connect_as("guest", "postgres");
    guest.batch_execute("select sched.enqueue('told')").unwrap();
    boss.batch_execute(
        "select sched.alter_job('told', owner => 'boss', command => 'select 2'), sched.define_job('gone')",
    )
    .unwrap();
    for job in ["told", "gone"] {
        assert_eq!(refused(&mut guest, &format!("select sched.enqueue('{job}')")), SqlState::INSUFFICIENT_PRIVILEGE);
    }
    // No alert of a schedule of the owner before comes to the job.
    evil.batch_execute("select sched.alter_schedule('watched', expect_success_within => '1 second')").unwrap();
    wait_for(&mut db, "select count(*) > 0 from sched.alerts where schedule_name = 'watched'", SOON);
    assert_eq!(
        one::<i64>(&mut db, "select count(*) from sched.execution where job_name = 'told' and scope_kind = 'alert'"),
        0
    );
    // The same owner again takes nothing away.
    boss.batch_execute("select sched.grant_enqueue('told', 'guest'), sched.alter_job('told', owner => 'boss')")
        .unwrap();
    guest.batch_execute("select sched.enqueue('told')").unwrap();
}

#[test]
fn executions_that_a_hand_over_left_come_with_another_one() {
    let cluster = Cluster::builder().set("sched.enabled", "off").start();
    let mut db = cluster.with_extension("postgres");
    db.batch_execute(
        "create role evil login; create role victim login; select sched.grant_use('evil'), sched.grant_use('victim')",
    )
    .unwrap();
    let mut evil = cluster.connect_as("evil", "postgres");
    evil.batch_execute(
        "select sched.define_job('j', retry_backoff => '{}'); select sched.enqueue_many('j', array_fill('{}'::jsonb, array[3]))",
    )
    .unwrap();
    let (run, token): (String, String) = {
        let row =
            evil.query_one("select execution_id::text, lease_token::text from sched.claim('default')", &[]).unwrap();
        (row.get(0), row.get(1))
    };
    let mut holder = cluster.connect_as("evil", "postgres");
    holder.batch_execute("begin; select sched.alter_execution(id, priority => 5) from sched.execution where status = 'PENDING' limit 1").unwrap();
    db.batch_execute("select sched.alter_job('j', owner => 'victim')").unwrap();
    assert_eq!(cluster.logged("2 executions of job \"j\" keep their owner").len(), 1);
    holder.batch_execute("commit").unwrap();
    evil.batch_execute(&format!("select sched.finish_failure('{run}', '{token}', 'E', 'again')")).unwrap();
    // Those of a third role, which enqueued the name before it was defined, are that role's.
    let mut victim = cluster.connect_as("victim", "postgres");
    assert_eq!(one::<i64>(&mut victim, "select count(*) from sched.claim('default', 1)"), 1);
    db.batch_execute("select sched.alter_job('j', owner => 'victim')").unwrap();
    assert_eq!(one::<i64>(&mut victim, "select count(*) from sched.claim('default', 10)"), 0);
    db.batch_execute("select sched.alter_job('j', owner => 'evil'); select sched.alter_job('j', owner => 'victim')")
        .unwrap();
    assert_eq!(one::<i64>(&mut victim, "select count(*) from sched.claim('default', 10)"), 2);
}

#[test]
fn a_hand_over_takes_nothing_of_third_roles() {
    let cluster = Cluster::builder().set("sched.enabled", "off").start();
    let mut db = cluster.with_extension("postgres");
    db.batch_execute(
        "create role evil login; create role victim login; select sched.grant_use('evil'), sched.grant_use('victim')",
    )
    .unwrap();
    let mut victim = cluster.connect_as("victim", "postgres");
    victim.batch_execute("select sched.enqueue('name', '{\"secret\": 1}')").unwrap();
    let mut evil = cluster.connect_as("evil", "postgres");
    evil.batch_execute("select sched.define_job('name'); select sched.alter_job('name', owner => 'evil')").unwrap();
    assert_eq!(one::<i64>(&mut evil, "select count(*) from sched.claim('default')"), 0);
    db.batch_execute("create role other login; select sched.alter_job('name', owner => 'other')").unwrap();
    assert_eq!(one::<i64>(&mut victim, "select count(*) from sched.claim('default')"), 1);
}

/// The job that a handed-over schedule gives its alerts to would show the errors of the new owner's command to the old one.
#[test]
fn an_alert_of_a_job_handed_over_goes_to_no_job_of_the_owner_before() {
    let (cluster, mut db, mut evil) = server();
    evil.batch_execute(
        "select sched.define_job('mine'), sched.define_job('taken', 'sql', 'select 1', max_attempts => 1);
         select sched.create_schedule('s', 'every 1 second', 'taken', alert_job => 'mine')",
    )
    .unwrap();
    let mut boss = cluster.connect_as("boss", "postgres");
    boss.batch_execute("select sched.alter_job('taken', owner => 'boss', command => 'select ''a secret''::int')")
        .unwrap();
    wait_for(&mut db, "select count(*) > 0 from sched.alerts where schedule_name = 's' and kind = 'failed'", SOON);
    assert_eq!(one::<i64>(&mut db, "select count(*) from sched.execution where job_name = 'mine'"), 0);
}

#[test]
fn a_grant_that_is_open_while_the_job_changes_hands_comes_before_or_after() {
    let (cluster, mut db, mut evil) = server();
    evil.batch_execute("select sched.define_job('j')").unwrap();
    evil.batch_execute("begin; select sched.grant_enqueue('j', 'guest')").unwrap();
    let mut taker = cluster.connect();
    let locked = refusal(&mut taker, "set lock_timeout = '500ms'; select sched.alter_job('j', owner => 'victim')");
    assert_eq!(locked.code(), &SqlState::LOCK_NOT_AVAILABLE, "{locked:?}");
    evil.batch_execute("commit").unwrap();
    db.batch_execute("select sched.alter_job('j', owner => 'victim')").unwrap();
    let mut guest = cluster.connect_as("guest", "postgres");
    assert_eq!(refused(&mut guest, "select sched.enqueue('j')"), SqlState::INSUFFICIENT_PRIVILEGE);
    // Without any grant that is left it may enqueue no name that was never defined.
    assert_eq!(refused(&mut guest, "select sched.enqueue('undefined')"), SqlState::INSUFFICIENT_PRIVILEGE);
}

#[test]
fn a_grant_to_enqueue_reaches_no_execution_of_others() {
    let (cluster, mut db, mut evil) = server();
    // The owner is the victim here, and the guest the attacker.
    evil.batch_execute(
        "select sched.define_job('log', 'log', 'x'), sched.define_job('work');
         select sched.create_schedule('s', '@daily', 'work');
         select sched.grant_enqueue('log', 'guest'), sched.grant_enqueue('work', 'guest');
         select sched.enqueue('work', '{\"by\": \"owner\"}', scope_id => 'order')",
    )
    .unwrap();
    let mut guest = cluster.connect_as("guest", "postgres");
    // Every way to enqueue is open.
    for call in [
        "select sched.enqueue('log')",
        "select sched.enqueue('work', scope_id => 'a', plan_time => '2026-01-01')",
        "select sched.enqueue('work', scope_id => 'b', unique_by => 'scope')",
        "select sched.enqueue_many('work', array['{}', '{}']::jsonb[])",
    ] {
        guest.batch_execute(call).unwrap_or_else(|error| panic!("{call}: {error:?}"));
    }
    for call in [
        "select sched.enqueue('work', '{\"by\": \"guest\"}', scope_id => 'order', unique_by => 'scope', if_exists => 'replace')",
        "select sched.enqueue('work', scope_kind => 'schedule', scope_id => 's', plan_time => '2030-01-01')",
        "select sched.enqueue('work', scope_kind => 'schedule', scope_id => 's', unique_by => 'scope')",
        "select sched.enqueue('work', scope_kind => 'schedule', scope_id => 'to come', plan_time => '2030-01-01')",
    ] {
        assert_eq!(refused(&mut guest, call), SqlState::INSUFFICIENT_PRIVILEGE, "{call}");
    }
    let owners = "select string_agg(distinct e.payload->>'by', ',') from sched.execution e where scope_id = 'order'";
    assert_eq!(one::<String>(&mut db, owners), "owner");
    // What a role has already is not given again: an open transaction that does so keeps no other waiting.
    evil.batch_execute("begin; select sched.grant_enqueue('log', 'guest')").unwrap();
    db.batch_execute("set lock_timeout = '2s'; select sched.grant_use('guest'); select sched.revoke_all('victim')")
        .unwrap();
    evil.batch_execute("rollback").unwrap();
}

/// A dispatcher tries the requests of all owners in turns.
#[test]
fn very_many_cancels_of_one_role_keep_no_other_waiting() {
    let (cluster, mut db, mut evil) = server();
    let many = 20_000;
    evil.batch_execute(&format!(
        "select sched.define_job('e'); select count(*) from sched.enqueue_many('e', array_fill('{{}}'::jsonb, array[{many}]))"
    ))
    .unwrap();
    let mut victim = cluster.connect_as("victim", "postgres");
    victim.batch_execute("select sched.define_job('v'); select sched.enqueue('v')").unwrap();
    evil.batch_execute("begin; select sched.alter_many('e', priority => 1)").unwrap();
    victim.batch_execute("begin; select sched.alter_many('v', priority => 1)").unwrap();
    let mut flood = cluster.connect_as("evil", "postgres");
    let cancel_all = "select count(*) filter (where sched.cancel(id)) from sched.execution where job_name = 'e'";
    assert_eq!(one::<i64>(&mut flood, cancel_all), many);
    // Twice is once.
    let again = "select count(*) filter (where sched.cancel(id)) from (select id from sched.execution where job_name = 'e' limit 100) e";
    assert_eq!(one::<i64>(&mut flood, again), 100);
    assert_eq!(one::<i64>(&mut db, "select count(*) from sched.cancel_request"), many);
    let mut other = cluster.connect_as("victim", "postgres");
    other.batch_execute("select sched.cancel(id) from sched.execution where job_name = 'v'").unwrap();
    victim.batch_execute("commit").unwrap();
    wait_for(&mut db, "select status = 'CANCELLED' from sched.execution where job_name = 'v'", SOON);
    let left: i64 = one(&mut db, "select count(*) from sched.execution where job_name = 'e' and status = 'PENDING'");
    assert_eq!(left, many, "those of the other role are locked still");
    evil.batch_execute("rollback").unwrap();
}
