//! import_from('pgagent') beside the real pgAgent: its tables, its triggers, and its own function for the next time.

use scheduler_cluster_tests::pgagent;
use scheduler_cluster_tests::random::Random;
use scheduler_cluster_tests::scheduler::{one, SOON};
use scheduler_cluster_tests::{wait_for, Client, Cluster};
use std::time::Duration;

const VERDICTS: &str = "select string_agg(concat_ws(' ', source_id, schedule_name, job_name, verdict, clock, note), E'\\n') from sched.import_from('pgagent')";

/// A job with one step that is `select 1`.
fn add_job(db: &mut Client, name: &str) -> i32 {
    let job = db.query_one("insert into pgagent.pga_job (jobjclid, jobname) values (1, $1) returning jobid", &[&name]);
    let job: i32 = job.unwrap().get(0);
    add_step(db, job, "a", "select 1", "f");
    job
}

fn add_step(db: &mut Client, job: i32, name: &str, code: &str, on_error: &str) {
    db.execute(
        "insert into pgagent.pga_jobstep (jstjobid, jstname, jstkind, jstcode, jstdbname, jstonerror)
         values ($1, $2, 's', $3, current_database(), $4::text::\"char\")",
        &[&job, &name, &code, &on_error],
    )
    .unwrap();
}

/// A schedule of 9:00 each day, with what else is said.
fn add_schedule(db: &mut Client, job: i32, name: &str, more: &str) {
    db.batch_execute(&format!(
        "insert into pgagent.pga_schedule (jscjobid, jscname, jscstart, jscminutes, jschours)
         values ({job}, '{name}', '2026-01-01 00:00+00', oracle.bits(60, '{{1}}'), oracle.bits(24, '{{10}}'));
         update pgagent.pga_schedule set jscname = jscname {more} where jscid = (select max(jscid) from pgagent.pga_schedule)"
    ))
    .unwrap();
}

fn server() -> Option<(Cluster, Client)> {
    if !pgagent::is_there() {
        return None;
    }
    let cluster = Cluster::new();
    let mut db = pgagent::database(&cluster);
    db.batch_execute(pgagent::ORACLE).unwrap();
    Some((cluster, db))
}

/// Jobs, their steps and schedules are imported or refused with the reason; a second import says what has changed.
#[test]
fn what_pgagent_has_is_imported_and_fires_nothing() {
    let Some((_cluster, mut db)) = server() else { return };
    let daily = add_job(&mut db, "daily");
    add_schedule(&mut db, daily, "only", "");
    let twice = add_job(&mut db, "twice");
    add_schedule(&mut db, twice, "weekly", ", jscweekdays = oracle.bits(7, '{1}')");
    add_schedule(
        &mut db,
        twice,
        "last day",
        ", jscmonthdays = oracle.bits(32, '{32}'), jscenabled = false, jscend = '2030-01-01'",
    );
    let steps = add_job(&mut db, "steps");
    add_step(&mut db, steps, "b", "vacuum", "i");
    add_schedule(&mut db, steps, "s", "");
    let batch = add_job(&mut db, "batch");
    add_schedule(&mut db, batch, "s", "");
    db.batch_execute(&format!("update pgagent.pga_jobstep set jstkind = 'b', jstdbname = '' where jstjobid = {batch}"))
        .unwrap();
    let there = add_job(&mut db, "there");
    add_schedule(&mut db, there, "s", "");
    db.batch_execute(&format!("update pgagent.pga_jobstep set jstdbname = 'template1' where jstjobid = {there}"))
        .unwrap();
    let remote = add_job(&mut db, "remote");
    add_schedule(&mut db, remote, "s", "");
    db.batch_execute(&format!(
        "update pgagent.pga_jobstep set jstdbname = '', jstconnstr = 'password=secret' where jstjobid = {remote}"
    ))
    .unwrap();
    let goes_on = add_job(&mut db, "goes on");
    db.batch_execute(&format!("update pgagent.pga_jobstep set jstonerror = 's' where jstjobid = {goes_on}")).unwrap();
    add_step(&mut db, goes_on, "b", "select 2", "f");
    add_schedule(&mut db, goes_on, "s", "");
    let two = add_job(&mut db, "two statements");
    add_step(&mut db, two, "b", "select 1; select 2", "f");
    add_schedule(&mut db, two, "s", "");
    // Two jobs of one name, one of them on a host.
    for _ in 0..2 {
        let same = add_job(&mut db, "same");
        add_schedule(&mut db, same, "s", "");
    }
    db.batch_execute("update pgagent.pga_job set jobhostagent = 'h', jobenabled = false where jobid = (select max(jobid) from pgagent.pga_job)").unwrap();
    let expected = [
        "1/1 daily daily imported 0 9 * * *",
        "2/2 twice / weekly twice imported 0 9 * * 0",
        "2/3 twice / last day twice imported 0 9 L * *",
        "3/4 steps steps imported 0 9 * * * a run that fails counts as a success there, and as a failure here",
        "4/5 unsupported step \"a\" is a program of the agent's host, and none is run here",
        "5/6 elsewhere its steps are run in database \"template1\"",
        "6/7 unsupported step \"a\" connects by a connection string of its own",
        "7/8 unsupported the steps after \"a\" are run also where it fails: make them jobs of their own",
        "8/9 unsupported step \"b\" is one transaction of several statements beside other steps, which no command here can be: make it a job of its own",
        "9/10 same (9) same (9) imported 0 9 * * *",
        "10/11 same (10) same (10) imported 0 9 * * * the agent on host \"h\" runs it there, the server here",
    ];
    assert_eq!(one::<String>(&mut db, VERDICTS), expected.join("\n"));
    let made = "select string_agg(concat_ws(' ', s.schedule_name, s.ownership, s.enabled, s.scope_id, s.overlap, s.starts_at at time zone 'UTC', s.ends_at > '2030-01-01', j.own_transactions), E'\\n' order by i.source_id)
                  from sched.schedule s join sched.job j using (job_name) join sched.imported i using (schedule_id) where s.job_name in ('twice', 'steps', 'same (10)')";
    let starts = "2026-01-01 00:00:00";
    let expected = [
        format!("same (10) external f same (10) skip {starts} t"),
        format!("twice / weekly external t twice skip {starts} t"),
        format!("twice / last day external f twice skip {starts} t t"),
        format!("steps external t steps skip {starts} t"),
    ];
    assert_eq!(one::<String>(&mut db, made), expected.join("\n"));
    let command = "select command from sched.job where job_name = 'steps'";
    assert_eq!(one::<String>(&mut db, command), "select 1\n;\nvacuum\n;");
    // Another schedule for a job that is here, an edit, and one that is gone.
    add_schedule(&mut db, twice, "noon", ", jschours = oracle.bits(24, '{13}')");
    db.batch_execute(&format!(
        "update pgagent.pga_schedule set jscend = null where jscid = 3; delete from pgagent.pga_job where jobid = {daily};
         update pgagent.pga_jobstep set jstcode = 'select 3' where jstjobid = {steps} and jstname = 'a'"
    ))
    .unwrap();
    let again = "select string_agg(concat_ws(' ', source_id, schedule_name, verdict), ', ') from sched.import_from('pgagent', only_ids => '{1,2,3,9}')";
    let expected = "2/2 twice / weekly same, 2/3 twice / last day changed, 2/12 twice / noon imported, 3/4 steps changed, 9/10 same (9) same, 1/1 daily removed";
    assert_eq!(one::<String>(&mut db, again), expected);
    assert_eq!(one::<String>(&mut db, command), "select 3\n;\nvacuum\n;");
    assert!(one::<bool>(
        &mut db,
        "select ends_at is null from sched.schedule where schedule_name = 'twice / last day'"
    ));
    assert_eq!(one::<i64>(&mut db, "select count(*) from sched.schedule where job_name = 'twice'"), 3);
    let expected = "2/2 twice / weekly same, 2/3 twice / last day same, 2/12 twice / noon same, 3/4 steps same, 9/10 same (9) same, 1/1 daily removed";
    assert_eq!(one::<String>(&mut db, again), expected);
}

/// A job that was renamed there is the same one: a new schedule of it runs the job that it has here, in the scope of the others.
#[test]
fn a_new_schedule_of_a_renamed_job_joins_it() {
    let Some((_cluster, mut db)) = server() else { return };
    let job = add_job(&mut db, "nightly");
    add_schedule(&mut db, job, "first", "");
    db.execute("select sched.import_from('pgagent')", &[]).unwrap();
    db.batch_execute(&format!("update pgagent.pga_job set jobname = 'renamed' where jobid = {job}")).unwrap();
    add_schedule(&mut db, job, "second", ", jscweekdays = oracle.bits(7, '{1}')");
    let jobs = "select string_agg(verdict || ' ' || job_name, ', ' order by verdict) from sched.import_from('pgagent')";
    assert_eq!(one::<String>(&mut db, jobs), "changed nightly, imported nightly");
    let scopes = "select count(*) || ' in ' || count(distinct (scope_kind, scope_id)) from sched.schedule";
    assert_eq!(one::<String>(&mut db, scopes), "2 in 1");
    assert_eq!(one::<String>(&mut db, "select string_agg(job_name, '') from sched.job"), "nightly");
}

/// Rows do not say as whom they run, so nobody imports what another role can have written.
#[test]
fn what_others_may_write_is_not_imported() {
    let Some((cluster, mut db)) = server() else { return };
    let job = add_job(&mut db, "a");
    add_schedule(&mut db, job, "s", "");
    db.batch_execute(
        "create role evil login; create role agent login; select sched.grant_use('agent'); select sched.grant_use('evil');
         grant usage on schema pgagent to agent, evil; grant select on all tables in schema pgagent to agent, evil",
    )
    .unwrap();
    for grant in [
        "insert on pgagent.pga_jobstep to evil",
        "update (jstcode) on pgagent.pga_jobstep to public",
        "trigger on pgagent.pga_job to evil",
    ] {
        db.batch_execute(&format!("grant {grant}")).unwrap();
        let failure = db.batch_execute("select sched.import_from('pgagent')").unwrap_err();
        assert_eq!(failure.code().unwrap().code(), "42501", "{grant}");
        db.batch_execute(&format!("revoke {}", grant.replace(" to ", " from "))).unwrap();
    }
    // Who runs pgAgent imports it as himself.
    db.batch_execute("grant insert, update on all tables in schema pgagent to agent").unwrap();
    let mut agent = cluster.connect_as("agent", "postgres");
    assert_eq!(one::<String>(&mut agent, VERDICTS), "1/1 a a imported 0 9 * * *");
    assert_eq!(one::<String>(&mut db, "select owner::text from sched.job"), "agent");
    db.batch_execute("revoke insert, update on all tables in schema pgagent from agent").unwrap();
    let other = one::<String>(&mut cluster.connect_as("evil", "postgres"), VERDICTS);
    assert_eq!(other, "1/1 unsupported it was imported before, as a schedule of another role");
}

/// Of a run pgAgent writes down the job, not the schedule.
#[test]
fn runs_are_compared_with_all_schedules_of_their_job() {
    let Some((_cluster, mut db)) = server() else { return };
    db.batch_execute("set timezone = 'UTC'").unwrap();
    let job = add_job(&mut db, "a");
    add_schedule(&mut db, job, "nine", "");
    add_schedule(&mut db, job, "noon", ", jschours = oracle.bits(24, '{10,13}'), jscend = '2026-05-02 12:00+00'");
    db.batch_execute(&format!(
        "insert into pgagent.pga_joblog (jlgjobid, jlgstatus, jlgstart, jlgduration)
         select {job}, 's', t::timestamptz, '1 second' from unnest(array['2026-05-01 09:00:03+00', '2026-05-01 12:00:03+00', '2026-05-02 09:00:03+00',
                '2026-05-02 12:05:03+00', '2026-05-03 10:00:03+00', '2026-05-04 09:00:01+00']) as t;
         select sched.import_from('pgagent')"
    ))
    .unwrap();
    let lines = "select string_agg(concat_ws(' ', schedule_name, to_char(plan_time, 'DD HH24:MI'), verdict), ', ')
                   from sched.compare('pgagent', '2026-05-01', '2026-05-05')";
    assert_eq!(
        one::<String>(&mut db, lines),
        "a / nine 01 09:00 both, a / nine 02 09:00 both, a / nine 03 09:00 late, a / nine 04 09:00 both, a / noon 01 12:00 both, a / noon 02 12:00 late"
    );
}

/// The agent itself runs a job of two schedules: its log is what `compare` expects, and what it says is next is our next plan time.
#[test]
#[ignore = "long: waits for two full minutes"]
fn long_what_the_agent_runs_is_what_is_compared() {
    let Some((cluster, mut db)) = server() else { return };
    db.batch_execute("create table ran (at timestamptz default now())").unwrap();
    let job = add_job(&mut db, "each minute");
    add_step(&mut db, job, "b", "insert into ran default values", "f");
    add_schedule(&mut db, job, "all", ", jscminutes = array_fill(true, '{60}'), jschours = array_fill(true, '{24}')");
    add_schedule(&mut db, job, "half", ", jscminutes = oracle.bits(60, '{31}'), jschours = array_fill(true, '{24}')");
    let _agent = pgagent::daemon(&cluster);
    let logged = "select count(*) >= 2 from pgagent.pga_joblog where jlgstatus = 's'";
    wait_for(&mut db, logged, Duration::from_secs(150));
    assert_eq!(
        one::<String>(&mut db, "select string_agg(verdict, ' ') from sched.import_from('pgagent')"),
        "imported imported"
    );
    let differ = "select coalesce(string_agg(c::text, ' '), '') from sched.compare('pgagent', now() - interval '1 hour', now() + interval '1 hour', '30 seconds') c where verdict <> 'both'";
    assert_eq!(one::<String>(&mut db, differ), "");
    assert!(one::<bool>(
        &mut db,
        "select count(*) = (select count(*) from ran) from pgagent.pga_joblog where jlgstatus = 's'"
    ));
    let next = "select jobnextrun = (select min(sched.next_time(s.clock, (select max(jlgstart) from pgagent.pga_joblog), s.time_zone)) from sched.schedule s) from pgagent.pga_job where jobagentid is null";
    wait_for(&mut db, next, SOON);
}

/// Fields of one kind as somebody may choose them.
fn field(random: &mut Random, first: u64, count: u64) -> String {
    let set: Vec<String> = match random.below(6) {
        0 | 1 => Vec::new(),
        2 => (1..=count).map(|bit| bit.to_string()).collect(),
        3 | 4 => vec![(first + random.below(count + 1 - first)).to_string()],
        _ => (0..=random.below(4)).map(|_| (first + random.below(count + 1 - first)).to_string()).collect(),
    };
    format!("oracle.bits({count}, '{{{}}}')", set.join(","))
}

const ZONES: [&str; 7] = [
    "UTC",
    "Europe/Berlin",
    "America/New_York",
    "Australia/Lord_Howe",
    "Asia/Kolkata",
    "America/Sao_Paulo",
    "Africa/Cairo",
];

/// Random schedules in the zones: what is imported has the plan times of pgAgent's own function in five years from now on, as far as
/// `most` of them go from each of the places, and what is not has a reason. How many are which.
fn against_the_oracle(seed: u64, count: u64, most: i32) -> (i64, i64) {
    println!("seed {seed}");
    let Some((_cluster, mut db)) = server() else { return (1, 1) };
    let mut random = Random(seed);
    let (mut imported, mut refused) = (0, 0);
    let batch = 100;
    for round in 0..count.div_ceil(batch) {
        let zone = ZONES[(round % ZONES.len() as u64) as usize];
        db.batch_execute(&format!(
            "reset search_path; set timezone = '{zone}'; alter database postgres set timezone = '{zone}'; delete from pgagent.pga_job;
             select sched.drop_schedule(schedule_name) from sched.schedule; select sched.drop_job(job_name) from sched.job;
             insert into pgagent.pga_job (jobjclid, jobname, jobenabled) select 1, 'job ' || i, false from generate_series(1, {batch}) as i;
             insert into pgagent.pga_jobstep (jstjobid, jstname, jstkind, jstcode, jstdbname) select jobid, 'a', 's', 'select 1', current_database() from pgagent.pga_job"
        ))
        .unwrap();
        for index in 1..=batch {
            let start = match random.below(8) {
                0 => format!("now() + {} * interval '7 minutes'", random.below(100_000)),
                1 => "date_trunc('hour', now()) + interval '40 days'".to_owned(),
                _ => "'2020-01-01'".to_owned(),
            };
            let end = if random.below(10) == 0 {
                format!("date_trunc('minute', now()) + interval '{} hours'", random.below(40_000))
            } else {
                "null".to_owned()
            };
            let [minutes, hours, week, days, months] =
                [(1, 60), (1, 24), (1, 7), (1, 32), (1, 12)].map(|(first, count)| field(&mut random, first, count));
            db.batch_execute(&format!(
                "insert into pgagent.pga_schedule (jscjobid, jscname, jscstart, jscend, jscminutes, jschours, jscweekdays, jscmonthdays, jscmonths)
                 select jobid, 's', {start}, {end}, {minutes}, {hours}, {week}, {days}, {months} from pgagent.pga_job where jobname = 'job {index}'"
            ))
            .unwrap();
            if random.below(4) == 0 {
                let day = if random.below(2) == 0 {
                    "null".to_owned()
                } else {
                    format!("current_date + {}", random.below(400) as i64 - 50)
                };
                let time = if day != "null" && random.below(2) == 0 {
                    "null".to_owned()
                } else {
                    format!("'{}:{}'", random.below(24), random.below(60))
                };
                db.batch_execute(&format!(
                    "insert into pgagent.pga_exception (jexscid, jexdate, jextime) select max(jscid), {day}, {time} from pgagent.pga_schedule on conflict do nothing"
                ))
                .unwrap();
            }
        }
        let verdicts =
            db.query("select source_id, verdict, note, clock from sched.import_from('pgagent')", &[]).unwrap();
        db.batch_execute("set search_path = oracle, pg_catalog").unwrap();
        for row in verdicts {
            let [id, verdict]: [String; 2] = [row.get(0), row.get(1)];
            let (note, clock): (Option<String>, Option<String>) = (row.get(2), row.get(3));
            if verdict == "unsupported" {
                assert!(note.is_some_and(|note| !note.is_empty()), "{id} has no reason");
                refused += 1;
                continue;
            }
            imported += 1;
            let schedule: i32 = id.split_once('/').unwrap().1.parse().unwrap();
            let place = random.below(5 * 365 * 24 * 60) as i32;
            // From a plan time on, and from now on where the start is still to come. (Asked at any other moment than a run, what it says
            // next depends on the moment.)
            let is_to_come = format!("select jscstart > pg_catalog.now() + interval '2 minutes' from pgagent.pga_schedule where jscid = {schedule}");
            let places = if one::<bool>(&mut db, &is_to_come) { vec![place, 0] } else { vec![place] };
            for from in places {
                let differ = db
                    .query_one(
                        "with s as (select s.* from sched.schedule s join sched.imported i using (schedule_id) where i.source_id = $1),
                              f as (select case when $2 = 0 then pg_catalog.now() else sched.next_time(s.clock, greatest(pg_catalog.now() + $2 * interval '1 minute', s.starts_at), s.time_zone) end as at from s),
                              ours as (select array(select p.plan_time from s, f, sched.preview(s.clock, s.time_zone, greatest(f.at, s.starts_at - interval '1 us'), $4) p
                                                     where (s.ends_at is null or p.plan_time < s.ends_at) and p.plan_time <= pg_catalog.now() + interval '5 years' order by 1) as times),
                              theirs as (select case when f.at is null then '{}' else oracle.walk($3, f.at, pg_catalog.now() + interval '5 years', $4) end as times from f)
                         select ours.times is distinct from theirs.times and f.at is not null, left(ours.times::text, 300), left(theirs.times::text, 300), f.at::text
                           from ours, theirs, f",
                        &[&id, &from, &schedule, &most],
                    )
                    .unwrap_or_else(|error| panic!("{zone}: {clock:?} ({id}): {error}"));
                let spec: String = one(
                    &mut db,
                    &format!("select row_to_json(s)::text from pgagent.pga_schedule s where jscid = {schedule}"),
                );
                assert!(
                    !differ.get::<_, bool>(0),
                    "{zone}: {clock:?} from {:?}\nours   {}\ntheirs {}\n{spec}",
                    differ.get::<_, Option<String>>(3),
                    differ.get::<_, String>(1),
                    differ.get::<_, String>(2)
                );
            }
        }
    }
    println!("{imported} imported, {refused} refused");
    (imported, refused)
}

#[test]
fn plan_times_are_those_of_pgagents_own_function() {
    let (imported, refused) = against_the_oracle(20_261_124, 300, 6);
    assert!(imported > 0 && refused > 0);
}

#[test]
#[ignore = "long: 10,000 random schedules"]
fn long_plan_times_of_ten_thousand_schedules() {
    let (imported, refused) = against_the_oracle(4_711, 10_000, 400);
    assert!(imported > 1_000 && refused > 1_000);
}
