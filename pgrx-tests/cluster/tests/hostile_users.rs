//! I7 as attacks by users: triggers and functions around ours, strangers who listen, callers who dispatch for others. Nothing of
//! theirs runs as anybody but themselves, and nothing is shown to them.

use postgres::error::SqlState;
use postgres::fallible_iterator::FallibleIterator as _;
use scheduler_cluster_tests::scheduler::{one, SOON};
use scheduler_cluster_tests::tables::*;
use scheduler_cluster_tests::{wait_for, wait_until, Cluster};
use std::collections::BTreeSet;
use std::thread;
use std::time::Duration;

use crate::hostile::prey;

/// What a user's functions and triggers see of themselves while they run, and whether they are more than that user.
const WITNESS: &str = "
    create table seen (place text, role name, session name, super text, path text);
    create table work (id int);
    create function witness(place text) returns text language plpgsql as $$
    begin
        insert into seen values (place, current_user, session_user, current_setting('is_superuser'), current_setting('search_path'));
        -- A server with assertions stops at an exception block in a deferred trigger at COMMIT, whatever is in it: there it is left out.
        if current_setting('debug_assertions')::boolean and place in ('deferred', 'after enqueue', 'after finish_success') then
            return place;
        end if;
        begin
            alter role victim superuser;
            raise warning 'escaped at %', place;
        exception when insufficient_privilege then null;
        end;
        return place;
    end $$;
    create function on_work() returns trigger language plpgsql as $$ begin perform witness(tg_argv[0]); return new; end $$;
    create constraint trigger late after insert on work deferrable initially deferred for each row execute function on_work('deferred');
    create trigger early after insert on work for each row execute function on_work('immediate');
    create function scheduling() returns trigger language plpgsql as $$
    begin
        perform sched.enqueue('j');
        perform witness('after enqueue');
        perform sched.finish_success(execution_id, lease_token) from sched.claim('q');
        perform witness('after finish_success');
        return new;
    end $$;
    create constraint trigger later after insert on work deferrable initially deferred for each row execute function scheduling();
";

#[test]
fn a_users_triggers_run_as_the_user_whatever_was_called_around_them() {
    let (cluster, mut root) = prey();
    root.batch_execute(
        "create extension scheduler; select sched.grant_use('victim'); grant create on schema public to victim",
    )
    .unwrap();
    let mut user = cluster.connect_as("victim", "prey");
    user.batch_execute(WITNESS).unwrap();
    user.batch_execute("select sched.define_job('j', queue => 'q', max_attempts => 3, retry_backoff => '{}')").unwrap();
    for (finish, error) in [
        ("sched.finish_success(execution_id, lease_token)", None),
        ("sched.finish_failure(execution_id, lease_token, error_msg => witness('argument'))", None),
        ("sched.finish_success(execution_id, lease_token, result => to_jsonb(repeat('x', 20000)))", Some("54000")),
    ] {
        let mut all = user.transaction().unwrap();
        all.batch_execute("insert into work values (1); select sched.define_job('j', queue => 'q', max_attempts => 3, retry_backoff => '{}')")
            .unwrap();
        all.batch_execute("select sched.enqueue('j') from generate_series(1, 3); select sched.dispatch_due()").unwrap();
        // Between the rows of one of our functions, in its arguments, and after it has raised.
        all.batch_execute(
            "select execution_id, witness('rows') from sched.claim('q', 1) where witness('where') is not null",
        )
        .unwrap();
        let mut part = all.transaction().unwrap();
        let ended = part.batch_execute(&format!("select {finish} from sched.claim('q', 1)"));
        match error {
            None => {
                ended.unwrap();
                part.commit().unwrap();
            }
            Some(code) => {
                assert_eq!(ended.expect_err(finish).code().map(SqlState::code), Some(code));
                part.rollback().unwrap();
            }
        }
        all.batch_execute("select witness('after'); insert into work values (2)").unwrap();
        all.commit().unwrap();
    }
    // The dispatcher fires, sweeps and commits meanwhile; no trigger of a user's is in its transactions.
    user.batch_execute(
        "begin; insert into work values (3); select sched.create_schedule('s', 'every 100 milliseconds', 'j'); commit",
    )
    .unwrap();
    wait_for(&mut root, "select count(*) > 2 from sched.execution where schedule_name = 's'", SOON);
    let row = root
        .query_one(
            "select count(*), count(*) filter (where role <> 'victim' or session <> 'victim' or super <> 'off' or path like '%pg_temp'),
                    array_agg(distinct place order by place)
               from public.seen",
            &[],
        )
        .unwrap();
    let (all, wrong, places): (i64, i64, Vec<String>) = (row.get(0), row.get(1), row.get(2));
    assert_eq!(wrong, 0, "of {all}");
    assert_eq!(
        places,
        ["after", "after enqueue", "after finish_success", "argument", "deferred", "immediate", "rows", "where"],
        "every place was reached"
    );
    assert!(!one::<bool>(&mut root, "select rolsuper from pg_roles where rolname = 'victim'"));
    assert!(cluster.logged("escaped").is_empty());
}

#[test]
fn a_listener_without_any_right_hears_names_of_queues_and_what_notify_jobs_say() {
    let (cluster, mut root) = prey();
    root.batch_execute("create extension scheduler; select sched.grant_use('victim')").unwrap();
    let hostile = r#"x"; drop table sched.ledger; -- '"#;
    let mut stranger = cluster.connect_as("evil", "prey");
    for channel in ["sched:q", "news", "x", hostile] {
        stranger.batch_execute(&format!("listen \"{}\"", channel.replace('"', "\"\""))).unwrap();
    }
    let mut user = cluster.connect_as("victim", "prey");
    user.execute("select sched.define_job('pulls', queue => 'q')", &[]).unwrap();
    user.execute("select sched.define_job('tells', 'notify', 'news')", &[]).unwrap();
    user.execute("select sched.define_job('breaks', 'notify', $1)", &[&hostile]).unwrap();
    for job in ["pulls", "tells", "breaks"] {
        user.execute("select sched.enqueue($1, '{\"quote\": \"''); drop table sched.ledger; --\"}')", &[&job]).unwrap();
    }
    let mut heard = BTreeSet::new();
    wait_until("three notifications", SOON, || {
        stranger.batch_execute("select").unwrap();
        let mut news = stranger.notifications();
        let mut iter = news.timeout_iter(Duration::from_millis(50));
        while let Some(notification) = iter.next().unwrap() {
            heard.insert((notification.channel().to_owned(), notification.payload().to_owned()));
        }
        (heard.len() >= 3).then_some(())
    });
    // A queue's is empty: what is in an execution stays with those who may read it. A notify job's payload is for everybody who listens.
    let said = r#"{"quote": "'); drop table sched.ledger; --"}"#.to_owned();
    let expected =
        [("news".to_owned(), said.clone()), ("sched:q".to_owned(), String::new()), (hostile.to_owned(), said)];
    assert_eq!(heard, expected.into_iter().collect());
    assert_eq!(one::<i64>(&mut root, "select count(*) from sched.ledger"), 3);
}

/// `dispatch_due` runs everybody's jobs in its caller's transaction: whatever the caller's session is told to show, none of it.
#[test]
fn who_dispatches_for_others_is_shown_nothing_of_theirs() {
    let cluster = Cluster::builder().set("sched.enabled", "off").start();
    cluster.execute("create role evil login; create role victim login");
    let mut root = cluster.connect();
    root.batch_execute(
        "create extension scheduler; select sched.grant_use('victim'), sched.grant_use('evil');
         alter table sched.ledger add constraint bad check (scope_id <> 'secret')",
    )
    .unwrap();
    let mut user = cluster.connect_as("victim", "postgres");
    user.batch_execute(
        "select sched.define_job('logs', 'log'), sched.define_job('tells', 'notify', 'channel'), sched.define_job('pulls');
         select sched.create_schedule('log the secret', 'every 1 second', 'logs', payload => '\"secret\"'),
                sched.create_schedule('tell the secret', 'every 1 second', 'tells', payload => '\"secret\"'),
                sched.create_schedule('secret that fails', 'every 1 second', 'pulls', scope_id => 'secret', payload => '\"secret\"'),
                sched.create_schedule('secret to be parked', 'every 1 second', 'pulls', payload => '\"secret\"')",
    )
    .unwrap();
    root.batch_execute("update sched.schedule set clock = 'secret' where schedule_name = 'secret to be parked'")
        .unwrap();
    root.batch_execute("select sched.dispatch_due()").unwrap();
    wait_for(&mut root, &format!("select count(*) = 3 from {TIMER} t where fire_at < clock_timestamp()"), SOON);
    // On a busy machine some were due the first time.
    let made = "select count(*) from sched.execution where job_name in ('logs', 'tells')";
    let before: i64 = one(&mut root, made);
    let mut psql = cluster.psql("evil", "postgres");
    for setting in [
        "client_min_messages = debug5",
        "debug_print_parse = on",
        "debug_print_rewritten = on",
        "debug_print_plan = on",
        "log_parameter_max_length_on_error = -1",
    ] {
        psql.args(["-c", &format!("set {setting}")]);
    }
    psql.args(["-c", "\\set VERBOSITY verbose", "-c", "select sched.dispatch_due() as made"]);
    let output = psql.output().unwrap();
    let shown = scheduler_cluster_tests::conn::text(&output);
    assert!(output.status.success() && shown.contains("made") && shown.contains("DEBUG"), "{shown}");
    assert!(!shown.contains("secret"), "{shown}");
    // The attack is one: all of it did happen.
    assert_eq!(one::<i64>(&mut root, made), before + 2);
    assert!(one::<bool>(&mut root, "select last_error like '%violates check constraint%' from sched.schedules where schedule_name = 'secret that fails'"));
    assert!(cluster.log().contains("log the secret"));
}

/// Who knows the id of another's execution, and all that can be known of it, still needs its token; and that is not to be guessed.
#[test]
fn a_lease_is_nobodys_who_has_not_its_token_and_its_rows_are_nobodys_who_is_not_its_owner() {
    let (cluster, mut root) = prey();
    root.batch_execute("create extension scheduler; select sched.grant_use('victim'), sched.grant_use('evil')")
        .unwrap();
    let mut user = cluster.connect_as("victim", "prey");
    user.batch_execute(
        "select sched.define_job('theirs', queue => 'q', max_attempts => 3, retry_backoff => '{}');
         select sched.create_schedule('theirs', 'every 1 hour', 'theirs', payload => '\"secret\"', enabled => false);
         select sched.enqueue('theirs', '\"secret\"', '2026-01-01', 'adhoc', 'pending');
         select sched.heartbeat(execution_id, lease_token, '1 hour', '\"secret\"')
           from sched.try_claim('theirs', '2026-01-01', 'adhoc', 'running');
         select sched.finish_failure(execution_id, lease_token, 'secret', 'secret', '2999-01-01')
           from sched.try_claim('theirs', '2026-01-01', 'adhoc', 'failed');
         select sched.finish_success(execution_id, lease_token, 1, '\"secret\"')
           from sched.try_claim('theirs', '2026-01-01', 'adhoc', 'done')",
    )
    .unwrap();
    let mut evil = cluster.connect_as("evil", "prey");
    // A lease of his own, whose token may fit; and each id, which he may have from a log.
    evil.batch_execute("create temp table mine as select * from sched.try_claim('mine', '2026-01-01')").unwrap();
    let ids: Vec<String> = one(&mut root, "select array_agg(id::text) from sched.ledger where job_name = 'theirs'");
    assert_eq!(ids.len(), 4);
    let all = &format!("select md5(string_agg(x, '' order by x)) from (select to_jsonb(l)::text from sched.ledger l
                 union all select to_jsonb(l)::text from {LEASE} l union all select to_jsonb(s)::text from sched.schedule s
                 union all select to_jsonb(r)::text from {READY} r union all select to_jsonb(r)::text from {DELAYED} r) t (x)");
    let before: String = one(&mut root, all);
    let own: String = one(&mut evil, "select lease_token::text from mine");
    let guessed: Vec<String> = one(&mut evil, "select array_agg(gen_random_uuid()::text) from generate_series(1, 100)");
    let nil = "00000000-0000-0000-0000-000000000000".to_owned();
    let tokens = |id: &str| [&[id.to_owned(), own.clone(), nil.clone()], guessed.as_slice()].concat();
    for id in &ids {
        for token in tokens(id) {
            for call in ["heartbeat", "assert_lease", "finish_success", "finish_failure"] {
                let statement = format!("select sched.{call}('{id}', '{token}')");
                let error = evil.batch_execute(&statement).expect_err(&statement);
                let code = error.code().map(SqlState::code);
                assert!(matches!(code, Some("55000" | "42501")), "{statement}: {error:?}");
            }
            let many = format!("select array_agg(l::text) from sched.finish_success_many('{{{id}}}', '{{{token}}}') l");
            assert_eq!(one::<Vec<String>>(&mut evil, &many), [id.as_str()], "it has ended nothing");
        }
        let cancel = format!("select sched.cancel('{id}')");
        let error = evil.batch_execute(&cancel).expect_err(&cancel);
        assert_eq!(error.code(), Some(&SqlState::INSUFFICIENT_PRIVILEGE), "{error:?}");
    }
    for taking in ["claim('q')", "claim()", "mark_stale_as_failed() x where x > 0", "import_crontab('')"] {
        let rows = evil.query(&format!("select * from sched.{taking}"), &[]).unwrap();
        assert!(rows.is_empty(), "{taking}");
    }
    let views = "select relname::text from pg_class where relnamespace = 'sched'::regnamespace and relkind = 'v'";
    let views: Vec<String> = root.query(views, &[]).unwrap().iter().map(|row| row.get(0)).collect();
    assert!(views.len() >= 6, "{views:?}");
    for view in views {
        let seen = format!("select coalesce(string_agg(to_jsonb(v)::text, ' '), '') from sched.{view} v");
        let seen: String = one(&mut evil, &seen);
        assert!(!seen.contains("secret") && !seen.contains("theirs"), "{view}: {seen}");
    }
    root.batch_execute(&format!("analyze sched.ledger, {LEASE_TABLE}, sched.schedule")).unwrap();
    assert_eq!(one::<i64>(&mut evil, "select count(*) from pg_stats where schemaname = 'sched'"), 0);
    assert_eq!(one::<String>(&mut root, all), before, "something of it was changed");
}

/// Between the look at a job's owner and the statement that inserts, another role may define a job of that name.
#[test]
fn a_job_that_is_defined_meanwhile_is_given_nothing_by_others() {
    let cluster = Cluster::builder().set("sched.enabled", "off").start();
    cluster.execute("create role evil login; create role victim login");
    let mut root = cluster.connect();
    root.batch_execute("create extension scheduler; select sched.grant_use('victim'), sched.grant_use('evil')")
        .unwrap();
    let mut user = cluster.connect_as("victim", "postgres");
    let calls = ["enqueue(%, scope_id => 'a')", "enqueue_many(%, '{1,2}', scope_ids => '{a,b}')"];
    for (number, call) in calls.iter().enumerate() {
        let job = format!("'planted {number}'");
        let mut held = root.transaction().unwrap();
        held.batch_execute(&format!("lock table {READY_TABLE} in share mode")).unwrap();
        let statement = format!("select sched.{}", call.replace('%', &job));
        let error = thread::scope(|scope| {
            let enqueues = scope.spawn(|| cluster.connect_as("evil", "postgres").batch_execute(&statement));
            let waits = &format!(
                "select exists (select from pg_locks where not granted and relation = '{READY_TABLE}'::regclass)"
            );
            wait_for(&mut cluster.connect(), waits, SOON);
            user.batch_execute(&format!("select sched.define_job({job}, 'log')")).unwrap();
            held.commit().unwrap();
            enqueues.join().unwrap().expect_err("another's job")
        });
        assert_eq!(error.code(), Some(&SqlState::INSUFFICIENT_PRIVILEGE), "{call}: {error:?}");
    }
    // Nothing was done for it, nor is anything left.
    assert_eq!(cluster.logged("scheduler: planted"), Vec::<String>::new());
    assert_eq!(one::<i64>(&mut root, "select count(*) from sched.ledger"), 0);
}

/// The names of schedules are no secret. So they say no word of a command, and a reader who guesses a command cannot try it out.
#[test]
fn the_name_of_a_crontab_line_gives_no_secret_away() {
    let cluster = Cluster::new();
    let mut root = cluster.connect();
    root.batch_execute(
        "create extension scheduler; create role app; create role watcher login;
         select sched.grant_use('app'), sched.grant_monitor('watcher');
         set role app;
         select sched.import_crontab('@daily TOKEN=hunter2 /opt/backup --password hunter3 https://u:hunter4@host');",
    )
    .unwrap();
    let mut watcher = cluster.connect_as("watcher", "postgres");
    let name: String = one(&mut watcher, "select schedule_name from sched.schedules");
    assert!(name.starts_with("crontab:-:backup:") && !name.contains("hunter"), "{name}");
    // The same line elsewhere has another name: the hash cannot be computed from a guess.
    let other = Cluster::new();
    other.execute("create extension scheduler; select sched.import_crontab('@daily TOKEN=hunter2 /opt/backup --password hunter3 https://u:hunter4@host')");
    let elsewhere: String = one(&mut other.connect(), "select schedule_name from sched.schedules");
    assert_ne!(name, elsewhere);
    let refused = watcher.batch_execute("select * from sched.crontab_secret").unwrap_err();
    assert_eq!(refused.code(), Some(&SqlState::INSUFFICIENT_PRIVILEGE));
}

/// A role that was the first to have a job in a queue cannot stop the queue for those who come later.
#[test]
fn a_pause_by_one_role_stops_no_other() {
    let cluster = Cluster::new();
    let mut root = cluster.connect();
    root.batch_execute(
        "create extension scheduler; create role evil login; create role victim login;
         select sched.grant_use('evil'), sched.grant_use('victim');
         set role evil; select sched.define_job('first'), sched.pause_queue('default'); reset role;",
    )
    .unwrap();
    let mut victim = cluster.connect_as("victim", "postgres");
    victim.batch_execute("select sched.define_job('mine'); select sched.enqueue('mine')").unwrap();
    assert_eq!(one::<i64>(&mut victim, "select count(*) from sched.claim('default')"), 1);
    // Nor does the victim keep evil from resuming what evil has paused.
    let mut evil = cluster.connect_as("evil", "postgres");
    evil.batch_execute("select sched.enqueue('first')").unwrap();
    assert_eq!(one::<i64>(&mut evil, "select count(*) from sched.claim('default')"), 0);
    evil.batch_execute("select sched.resume_queue('default')").unwrap();
    assert_eq!(one::<i64>(&mut evil, "select count(*) from sched.claim('default')"), 1);
}
