//! What an update does with clocks that new schedules may not have any more.

use postgres::{Config, NoTls};
use scheduler_cluster_tests::scheduler::one;
use scheduler_cluster_tests::{Client, Cluster};
use std::sync::{Arc, Mutex};

use crate::upgrade::{prepared, ROLES};

/// The text of before, and what it says after the update; the same where nothing was wrong with it. That both have the same plan times is
/// tested in the core (`clock_pasted`).
const CLOCKS: [(&str, &str); 14] = [
    ("every day 05:15", "every 5 hours 15 minutes"),
    ("EVERY  Day,\t05:15:30", "every 5 hours 15 minutes 30 seconds"),
    ("every days 29:15", "every days 29:15"),
    ("every mon 01:00", "every 1 hour"),
    ("every week 00:01:05 from 2027-01-01", "every 1 minute 5 seconds from 2027-01-01"),
    ("every d 00:30 after end", "every 30 minutes after end"),
    ("every 1 day 05:15", "every 1 day 05:15"),
    ("every month 5 days", "every month 5 days"),
    ("every day 05:15:00.5", "every day 05:15:00.5"),
    ("every 1d2h", "every 1d2h"),
    ("every P1DT2H", "every P1DT2H"),
    ("every -5 minutes ago", "every -5 minutes ago"),
    ("15 5 * * mon", "15 5 * * mon"),
    ("@daily", "@daily"),
];

#[test]
fn days_with_a_time_are_written_as_the_intervals_that_they_are() {
    let cluster = Cluster::builder().set("sched.enabled", "off").start();
    cluster.execute(ROLES);
    let mut db = prepared(&cluster, "units", "0.3.0");
    db.batch_execute(
        "insert into sched.job (job_name, kind, queue, max_attempts, retry_backoff, allow_stale_reentry, priority, owner)
         values ('job', 'pull', 'default', 1, '{}', true, 0, 'postgres')",
    )
    .unwrap();
    for (at, (clock, _)) in CLOCKS.iter().enumerate() {
        db.execute(
            "insert into sched.schedule (schedule_name, clock, time_zone, job_name, payload, scope_kind, scope_id, catch_up, max_plans_per_tick, rearm,
                                         overlap, delay, jitter, ownership, enabled, created_at, baseline_at, updated_at)
             values ($2, $1, 'Europe/Berlin', 'job', '{}', 'schedule', $2, 'latest_only', 100, 'on_dispatch', 'skip', '0', '0', 'owned', true,
                     now(), now(), now())",
            &[clock, &format!("s{at:02}")],
        )
        .unwrap();
    }
    // What it was is in its past.
    db.batch_execute("update sched.schedule set clock = 'every day 07:30' where schedule_name = 's00'; update sched.schedule set clock = 'every day 05:15' where schedule_name = 's00'")
        .unwrap();
    let edits = "select string_agg(concat_ws(' ', schedule_id, version, baseline_at, defined_at, updated_at), ', ' order by schedule_id) from sched.schedule";
    let before: String = one(&mut db, edits);
    let (messages, mut admin) = listener(&cluster);
    admin.batch_execute("alter extension scheduler update").unwrap();
    assert_eq!(one::<String>(&mut db, edits), before, "an update is no edit");
    let said: Vec<String> = db
        .query("select clock from sched.schedule order by schedule_name", &[])
        .unwrap()
        .iter()
        .map(|row| row.get(0))
        .collect();
    assert_eq!(said, CLOCKS.map(|(_, after)| after));
    let past = "select string_agg(distinct clock, ', ') from sched.schedule_definition where clock like '%7%'";
    assert_eq!(one::<String>(&mut db, past), "every 7 hours 30 minutes");
    // All that was changed is named, and nothing else.
    let messages = messages.lock().unwrap().join("\n");
    for (at, (clock, after)) in CLOCKS.iter().enumerate() {
        assert_eq!(messages.contains(&format!("s{at:02} ({after})")), clock != after, "{clock}: {messages}");
    }
    assert!(messages.starts_with("NOTICE these clocks had a day and a time"), "{messages}");
    assert_eq!(one::<String>(&mut admin, "show client_min_messages"), "notice");
    // They go on by it, and new ones are told both readings.
    db.batch_execute("select sched.rebuild()").unwrap();
    let new = "select hint from sched.validate('every day 05:15')";
    let hint = "A time of day is \"15 5 * * *\", and an interval of so many hours is \"every 5 hours 15 minutes\".";
    assert_eq!(one::<String>(&mut db, new), hint);
}

/// A dump of an earlier release has such texts. They are read as they were.
#[test]
fn what_a_dump_of_an_earlier_release_has_goes_on() {
    let cluster = Cluster::builder().set("sched.enabled", "off").start();
    let mut db = cluster.connect();
    db.batch_execute(
        "create extension if not exists scheduler;
         select sched.define_job('job'), sched.create_schedule('old', 'every 1 hour', 'job');
         update sched.schedule set clock = 'every day 05:15'",
    )
    .unwrap();
    assert_eq!(one::<i64>(&mut db, "select sched.rebuild()"), 1);
    assert!(one::<bool>(&mut db, "select next_plan_time is not null from sched.schedules"));
}

/// A connection whose messages are kept.
fn listener(cluster: &Cluster) -> (Arc<Mutex<Vec<String>>>, Client) {
    let messages = Arc::new(Mutex::new(Vec::new()));
    let kept = Arc::clone(&messages);
    let mut config = Config::new();
    config.host_path(cluster.folder()).user("postgres").dbname("units");
    config.notice_callback(move |notice| {
        kept.lock().unwrap().push(format!("{} {}", notice.severity(), notice.message()))
    });
    (messages, config.connect(NoTls).unwrap())
}
