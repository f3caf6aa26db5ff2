//! One bad schedule delays no other (I4): of 1,000 schedules that are due in the same instant one is poisoned, in each of five ways.

use scheduler_cluster_tests::scheduler::{one, SOON};
use scheduler_cluster_tests::{wait_for, Client, Cluster};

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
        "select count(*) >= {SCHEDULES} - 1 from sched.timer t join sched.schedule s using (schedule_id)
          where s.schedule_name like '{prefix} %' and t.last_plan_time >= '{until}'"
    );
    wait_for(db, &fired, SOON * 2);
}

#[test]
fn of_a_thousand_due_schedules_a_poisoned_one_delays_none() {
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
