//! One bad schedule delays no other (I4): of 1,000 schedules that are due in the same instant one is poisoned, in each of five ways.

use scheduler_cluster_tests::scheduler::{one, whole_grid, SOON};
use scheduler_cluster_tests::tables::*;
use scheduler_cluster_tests::{wait_for, wait_until, Client, Cluster};

const SCHEDULES: i64 = 1000;

/// How one schedule is made unusable behind the extension's back, and what is seen of it.
struct Poison {
    name: &'static str,
    /// What a superuser does to the schedule `%s`, which uses a job of its own (`bad %s`, of the role `bad`).
    statement: &'static str,
    state: &'static str,
    /// A part of last_error.
    reason: &'static str,
}

const POISONS: [Poison; 5] = [
    Poison {
        name: "clock garbled",
        statement: "update sched.schedule set clock = 'every now and then' where schedule_name = '%s'",
        state: "parked",
        reason: "now and then",
    },
    Poison {
        name: "zone gone",
        statement: "update sched.schedule set time_zone = 'Europe/Atlantis' where schedule_name = '%s'",
        state: "parked",
        reason: "Europe/Atlantis",
    },
    Poison {
        name: "check on the ledger",
        statement: "alter table sched.ledger add constraint sweet check (job_name <> 'bad %s') not valid",
        state: "failing",
        reason: "violates check constraint \"sweet\"",
    },
    Poison {
        name: "owner dropped",
        statement: "select sched.revoke_all('bad'); drop role bad",
        state: "parked",
        reason: "the owner of job \"bad %s\" was dropped",
    },
    Poison {
        name: "job gone",
        statement: "delete from sched.job where job_name = 'bad %s'",
        state: "parked",
        reason: "job \"bad %s\" does not exist",
    },
];

/// Waits until every healthy schedule has fired a plan that is `seconds` later than this moment.
fn all_fire_on(db: &mut Client, prefix: &str, seconds: i32) {
    let until: String = one(db, &format!("select (clock_timestamp() + interval '{seconds} seconds')::text"));
    let fired = format!(
        "select count(*) >= {SCHEDULES} - 1 from {TIMER} t join sched.schedule s using (schedule_id)
          where s.schedule_name like '{prefix} %' and t.last_plan_time >= '{until}'"
    );
    wait_for(db, &fired, SOON * 2);
}

#[test]
#[ignore = "long: a minute"]
fn long_of_a_thousand_due_schedules_a_poisoned_one_delays_none() {
    let cluster = Cluster::builder().set("max_locks_per_transaction", "128").start();
    let mut db = cluster.with_extension("postgres");
    db.batch_execute("select sched.define_job('good')").unwrap();
    for (number, poison) in POISONS.iter().enumerate() {
        let (prefix, bad) = (format!("p{number}"), format!("p{number} 500"));
        db.batch_execute(&format!(
            "create role bad; select sched.grant_use('bad');
             set role bad; select sched.define_job('bad {bad}'); reset role;
             -- On one grid, so that all of them are due in the same instant.
             select sched.create_schedules(jsonb_agg(jsonb_build_object(
                        'schedule_name', '{prefix} ' || i, 'clock', 'every 3 seconds from epoch', 'catch_up', 'every_plan',
                        'job_name', case when i = 500 then 'bad {bad}' else 'good' end)))
               from generate_series(1, {SCHEDULES}) as i"
        ))
        .unwrap();
        all_fire_on(&mut db, &prefix, 0);
        let poisoned_at: String = one(&mut db, "select clock_timestamp()::text");
        db.batch_execute(&poison.statement.replace("%s", &bad)).unwrap();
        all_fire_on(&mut db, &prefix, 7);

        // The healthy ones: each plan of the grid once, and on time.
        let row = db
            .query_one(
                &format!(
                    "with plans as (select schedule_name, plan_time, created_at - plan_time as late from sched.execution
                                     where schedule_name like '{prefix} %' and schedule_name <> '{bad}'),
                          each as (select schedule_name, count(*) as plans, count(distinct plan_time) as distinct_plans,
                                          extract(epoch from max(plan_time) - min(plan_time))::bigint / 3 + 1 as called_for
                                     from plans group by 1)
                     select count(*), count(*) filter (where plans = called_for and distinct_plans = plans),
                            (select extract(epoch from max(late))::float8 from plans where plan_time > '{poisoned_at}'),
                            (select (percentile_cont(0.5) within group (order by extract(epoch from late)))::float8
                               from plans where plan_time > '{poisoned_at}')
                       from each"
                ),
                &[],
            )
            .unwrap();
        let (healthy, whole): (i64, i64) = (row.get(0), row.get(1));
        let (worst, late): (f64, f64) = (row.get(2), row.get(3));
        assert_eq!(
            (healthy, whole),
            (SCHEDULES - 1, SCHEDULES - 1),
            "{}: schedules, and those with each plan once",
            poison.name
        );
        println!(
            "{}: half of the healthy ones at most {:.0} ms late, the latest {:.0} ms",
            poison.name,
            late * 1000.0,
            worst * 1000.0
        );
        // Whoever shares the bad one's fate waits for as long as that is put off, longer each time. What a busy machine keeps waiting for
        // a moment does not.
        assert!(late < 1.0, "{}: half of the healthy ones were {late} s late", poison.name);
        assert!(worst < 20.0, "{}: a healthy one was {worst} s late", poison.name);

        // The bad one: visible with its reason, and one line in the log.
        let seen =
            db.query_one("select state, last_error from sched.schedules where schedule_name = $1", &[&bad]).unwrap();
        let (state, error): (String, Option<String>) = (seen.get(0), seen.get(1));
        assert_eq!(state, poison.state, "{}", poison.name);
        let error = error.unwrap_or_default();
        assert!(error.contains(&poison.reason.replace("%s", &bad)), "{}: last_error is {error:?}", poison.name);
        let lines = cluster.logged(&format!("schedule \"{bad}\" "));
        assert_eq!(lines.len(), 1, "{}: {lines:#?}", poison.name);

        db.batch_execute(&format!(
            "select sched.drop_schedule(schedule_name) from sched.schedule where schedule_name like '{prefix} %';
             alter table sched.ledger drop constraint if exists sweet"
        ))
        .unwrap();
        db.batch_execute("select sched.revoke_all('bad'); drop role bad").ok();
    }
}

/// What a hand writes into the rows of one schedule (`%s` is its number), and what becomes of that.
struct Row {
    write: &'static str,
    state: &'static str,
    /// A part of last_error.
    reason: &'static str,
}

const fn row(state: &'static str, reason: &'static str, write: &'static str) -> Row {
    Row { write, state, reason }
}

/// What timers are made anew from.
const BESIDE_TIMERS: [Row; 6] = [
    row("parked", "finite", "insert into sched.timer_state (schedule_id, external_through) values (%s, 'infinity')"),
    row("parked", "finite", "insert into sched.timer_state (schedule_id, buffered_plan) values (%s, 'infinity')"),
    row("parked", "finite", "insert into sched.timer_state (schedule_id, backlog_until) values (%s, '-infinity')"),
    row("parked", "finite", "insert into sched.timer_state (schedule_id, redefined_at) values (%s, '-infinity')"),
    row("parked", "finite", "insert into sched.skip select %s, defined_at, 'infinity', 'infinity', 1, 'missed' from sched.schedule where schedule_id = %s"),
    row("armed", "", "insert into sched.skip values (%s, 'infinity', 'infinity', 'infinity', 1, 'missed'), (%s, '-infinity', '-infinity', '-infinity', 1, 'missed')"),
];

const ROWS: [Row; 22] = [
    row("parked", "cursor_at", "update {TIMER_TABLE} set cursor_at = 'infinity' where schedule_id = %s"),
    row("parked", "cursor_at", "update {TIMER_TABLE} set cursor_at = '-infinity' where schedule_id = %s"),
    row("parked", "buffered_plan", "update {TIMER_TABLE} set buffered_plan = 'infinity' where schedule_id = %s"),
    row("parked", "backlog_until", "update {TIMER_TABLE} set backlog_until = '-infinity' where schedule_id = %s"),
    row("armed", "", "update {TIMER_TABLE} set last_plan_time = 'infinity', last_fired_at = '-infinity' where schedule_id = %s"),
    row("failing", "sweet", "update sched.schedule set payload = '[1]' where schedule_id = %s"),
    row("parked", "previous_keys", "update sched.schedule set previous_keys = array[null]::uuid[] where schedule_id = %s"),
    row("parked", "previous_keys", "update sched.schedule set previous_keys = array[key, null], clock = 'every 500 milliseconds' where schedule_id = %s"),
    row("armed", "", "update sched.schedule set previous_keys = array[[gen_random_uuid()], [gen_random_uuid()]] where schedule_id = %s"),
    row("parked", "starts_at", "update sched.schedule set starts_at = '-infinity' where schedule_id = %s"),
    row("parked", "ends_at", "update sched.schedule set ends_at = 'infinity' where schedule_id = %s"),
    row("parked", "delay", "update sched.schedule set delay = '-1 second' where schedule_id = %s"),
    row("parked", "jitter", "update sched.schedule set jitter = '-178000000 years' where schedule_id = %s"),
    row("parked", "catch_up_window", "update sched.schedule set catch_up_window = '-1 microsecond' where schedule_id = %s"),
    row("armed", "", "update sched.schedule set max_plans_per_tick = 2147483647 where schedule_id = %s"),
    row("armed", "", "insert into sched.schedule_definition (schedule_id, valid_from, valid_to, clock, time_zone, starts_at, ends_at, enabled, ownership)
                      values (%s, '-infinity', 'infinity', 'every 1 hour', 'UTC', '-infinity', 'infinity', true, 'owned');
                      update sched.schedule set payload = '[]' where schedule_id = %s"),
    row("armed", "", "insert into sched.schedule_definition (schedule_id, valid_from, valid_to, clock, time_zone, enabled, ownership)
                      values (%s, 'infinity', '-infinity', 'every', 'Mars', true, 'nobody');
                      update sched.schedule set payload = '[]' where schedule_id = %s"),
    row("armed", "", "insert into sched.schedule_change (schedule_id, terminal_at, failures) values (%s, 'infinity', 2147483647)"),
    row("armed", "", "insert into sched.schedule_change (schedule_id, terminal_at, retry_at) values (%s, '-infinity', '-infinity')"),
    row("armed", "", "insert into sched.schedule_change (schedule_id, retry_at) values (%s, 'infinity')"),
    row("armed", "", "update sched.job set queue = repeat('q', 70), retry_backoff = '{null}' where job_name = 'job of %s'"),
    row("armed", "", "{POISONED_ENTRIES}"),
];

/// One schedule for each row, and as many healthy ones; all are due in the same instant. Which way they go to their tables.
fn a_hand_poisons_rows(by_statements: bool) {
    let cluster = Cluster::builder().set("sched.history_retention", "2s").start();
    let mut db = cluster.with_extension("postgres");
    if by_statements {
        db.batch_execute(&format!("alter table {TIMER_TABLE} add note text; alter table sched.schedule add note text; alter table sched.ledger add note text")).unwrap();
    }
    let all: Vec<&Row> = BESIDE_TIMERS.iter().chain(&ROWS).collect();
    let count = all.len();
    db.batch_execute(&format!(
        "select sched.define_job('good');
         -- The number of a schedule is known to come.
         select sched.define_job('job of ' || n) from generate_series(1, {count}) n;
         select sched.create_schedule('bad ' || n, 'every 1 second from epoch', 'job of ' || n, catch_up => 'every_plan') from generate_series(1, {count}) n;
         select sched.create_schedule('good ' || n, 'every 1 second from epoch', 'good', catch_up => 'every_plan') from generate_series(1, {count}) n;
         alter table sched.ledger add constraint sweet check (payload <> '[1]') not valid;
         insert into sched.skip select schedule_id, defined_at, defined_at - n * interval '1 day', defined_at - n * interval '1 day', 1, 'missed'
           from sched.schedule, generate_series(1, 2) n where schedule_name = 'good {count}'"
    ))
    .unwrap();
    wait_for(&mut db, &format!("select count(distinct schedule_name) = 2 * {count} from sched.execution"), SOON);
    let mut write = |rows: &[Row], first: usize| {
        for (number, row) in rows.iter().enumerate() {
            let bad =
                format!("(select schedule_id from sched.schedule where schedule_name = 'bad {}')", first + number);
            let write = fill(row.write).replace("job of %s", &format!("job of {}", first + number)).replace("%s", &bad);
            db.batch_execute(&write).unwrap_or_else(|error| panic!("{write}: {error}"));
        }
    };
    write(&BESIDE_TIMERS, 1);
    cluster.execute("select sched.rebuild()");
    write(&ROWS, BESIDE_TIMERS.len() + 1);

    // The others fire on, changes are applied, and what is old is forgotten.
    let poisoned: String = one(&mut db, "select (clock_timestamp() + interval '5 seconds')::text");
    db.batch_execute("select sched.create_schedule('new', 'every 1 second', 'good'), sched.alter_schedule('good 1', payload => '[2]')").unwrap();
    let fire_on = format!(
        "select count(*) = {count} from {TIMER} t join sched.schedule using (schedule_id) where schedule_name like 'good %' and last_plan_time >= '{poisoned}'"
    );
    wait_for(&mut db, &fire_on, SOON);
    for number in 1..=count {
        whole_grid(&mut db, &format!("good {number}"), "1 second");
    }
    wait_for(&mut db, "select count(*) > 2 from sched.execution where schedule_name = 'new'", SOON);
    let pruned = format!("select count(*) = 1 from sched.skip join sched.schedule using (schedule_id) where schedule_name = 'good {count}'");
    wait_for(&mut db, &pruned, SOON);
    let failures: Vec<String> =
        cluster.logged("WARNING").into_iter().filter(|line| line.contains(" failed: ")).collect();
    assert!(failures.is_empty(), "{failures:#?}");

    // Each bad one stands alone, and says why.
    for (number, row) in all.iter().enumerate() {
        let name = format!("bad {}", number + 1);
        wait_until(&format!("{name}, of {}, to be {}", row.write, row.state), SOON, || {
            let seen = db
                .query_one(
                    "select state, coalesce(last_error, '') from sched.schedules where schedule_name = $1",
                    &[&name],
                )
                .unwrap();
            let (state, error): (String, String) = (seen.get(0), seen.get(1));
            (state == row.state && error.contains(row.reason)).then_some(())
        });
        if row.state == "armed" {
            wait_for(
                &mut db,
                &format!("select max(plan_time) >= '{poisoned}' from sched.execution where schedule_name = '{name}'"),
                SOON,
            );
        }
        one::<i64>(&mut db, &format!("select count(*) from sched.explain('{name}', clock_timestamp() - interval '1 hour', clock_timestamp())"));
    }
    one::<i64>(&mut db, "select count(*) from sched.skipped");

    // One that fails for ever.
    db.batch_execute(
        &format!("update {TIMER_TABLE} set error_count = 2147483647, fire_at = clock_timestamp() where last_error like '%sweet%';
         {TIMERS_ARE_NEW}"),
    )
    .unwrap();
    wait_for(
        &mut db,
        &format!("select fire_at > clock_timestamp() from {TIMER} t where last_error like '%sweet%'"),
        SOON,
    );

    // An edit brings back what its own rows had parked; what is wrong in the schedule itself has to be put right.
    for (number, row) in all.iter().enumerate().filter(|(_, row)| row.state == "parked") {
        let name = format!("bad {}", number + 1);
        let edit = match row.reason {
            "delay" | "jitter" | "catch_up_window" | "starts_at" | "ends_at" => {
                format!("reset => '{{{}}}'", row.reason)
            }
            _ => "payload => '[3]'".to_owned(),
        };
        let moment: String = one(&mut db, "select clock_timestamp()::text");
        db.batch_execute(&format!("select sched.alter_schedule('{name}', {edit})")).unwrap();
        let fires = format!("select max(plan_time) > '{moment}' from sched.execution where schedule_name = '{name}'");
        wait_for(&mut db, &fires, SOON);
    }
    let dropped =
        "select count(*) filter (where sched.drop_schedule(schedule_name, cancel_pending => true)) from sched.schedule";
    assert_eq!(one::<i64>(&mut db, dropped), 2 * i64::try_from(count).unwrap() + 1);
    wait_for(&mut db, &none(TIMER), SOON);
}

#[test]
fn what_a_hand_writes_into_the_rows_of_one_schedule_stops_no_other() {
    a_hand_poisons_rows(false);
}

#[test]
fn what_a_hand_writes_into_the_rows_of_one_schedule_stops_no_other_by_statements() {
    a_hand_poisons_rows(true);
}

/// Also what no row of ours could hold, had a hand not written it: it is found alone by the steps that read it.
#[test]
fn a_row_that_cannot_be_read_stops_no_other() {
    let cluster = Cluster::new();
    cluster.execute("create database ascii template template0 encoding 'SQL_ASCII' lc_collate 'C' lc_ctype 'C'");
    let mut db = cluster.with_extension("ascii");
    db.batch_execute(
        "select sched.define_job('job');
         select sched.create_schedule(name, 'every 1 second from epoch', 'job', catch_up => 'every_plan') from unnest('{bad,good,worse}'::text[]) name",
    )
    .unwrap();
    wait_for(&mut db, "select count(distinct schedule_name) = 3 from sched.execution", SOON);
    // One whose change nobody can apply, and one that nobody can fire.
    db.batch_execute(
        &format!("update sched.schedule set time_zone = E'\\377' where schedule_name = 'bad';
         begin; lock table {TIMER_TABLE}; update sched.schedule set catch_up = 'every_plan', clock = E'\\377' where schedule_name = 'worse';
         update {TIMER_TABLE} t set version = s.version, fire_at = clock_timestamp(), next_plan_time = clock_timestamp()
           from sched.schedule s where s.schedule_id = t.schedule_id and schedule_name = 'worse';
         delete from sched.schedule_change c using sched.schedule s where s.schedule_id = c.schedule_id and schedule_name = 'worse'; commit;
         {TIMERS_ARE_NEW};
         select sched.create_schedule('new', 'every 1 second', 'job')"),
    )
    .unwrap();
    let moment: String = one(&mut db, "select clock_timestamp()::text");
    for name in ["good", "new"] {
        let fires = format!(
            "select count(*) > 4 from sched.execution where schedule_name = '{name}' and plan_time > '{moment}'"
        );
        wait_for(&mut db, &fires, SOON);
    }
    whole_grid(&mut db, "good", "1 second");
    let says = &format!("select count(*) = 2 from {TIMER} t join sched.schedule using (schedule_id)
                 where schedule_name in ('bad', 'worse') and last_error like '%not valid UTF-8%' and fire_at > clock_timestamp() - interval '1 minute'");
    wait_for(&mut db, says, SOON);
    let failures: Vec<String> =
        cluster.logged("WARNING").into_iter().filter(|line| line.contains(" failed: ")).collect();
    assert!(failures.is_empty(), "{failures:#?}");
    db.batch_execute("select sched.alter_schedule('good', payload => '[1]'); update sched.schedule set time_zone = 'UTC' where schedule_name = 'bad'").unwrap();
    wait_for(
        &mut db,
        "select count(*) = 2 from sched.schedules where schedule_name in ('bad', 'good') and state = 'armed'",
        SOON,
    );
}
