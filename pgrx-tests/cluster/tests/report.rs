//! The page and the timeline show what `sched.explain` says, to whom it concerns, and nothing that a user wrote gets out of its place.

use scheduler_cluster_tests::scheduler::{one, SOON};
use scheduler_cluster_tests::{wait_for, Client, Cluster};

/// A schedule that runs, one that fails for good, one that is paused, and one with a name that wants to be a script.
fn world(cluster: &Cluster) -> Client {
    let mut db = cluster.with_extension("postgres");
    db.batch_execute(
        "select sched.schedule_sql('good', 'every 200 milliseconds', 'select 1'),
                sched.schedule_sql('bad', 'every 200 milliseconds', 'select 1/0'),
                sched.schedule_sql('resting', 'every 1 second', 'select 1', enabled => false);
         select sched.define_job('pull', max_attempts => 1);
         select sched.create_schedule('<script>alert(''x'')</script> \"&', 'every 1 hour', 'pull')",
    )
    .unwrap();
    for (status, schedule) in [("SUCCESS", "good"), ("FAILED", "bad")] {
        let query = format!(
            "select count(*) >= 5 from sched.execution where status = '{status}' and schedule_name = '{schedule}'"
        );
        wait_for(&mut db, &query, SOON);
    }
    wait_for(&mut db, "select exists (select from sched.skipped where schedule_name = 'resting')", SOON);
    db.batch_execute("select sched.pause('good'), sched.pause('bad')").unwrap();
    wait_for(&mut db, "select count(*) = 0 from sched.execution where status in ('PENDING', 'RUNNING')", SOON);
    db
}

const AN_HOUR: &str = "clock_timestamp() - interval '10 minutes', clock_timestamp() + interval '10 minutes'";

fn page(client: &mut Client) -> String {
    one(client, &format!("select sched.report({AN_HOUR})"))
}

/// How many plan times of a schedule have a verdict, in the table that stands beside the picture or in the marks.
fn drawn(page: &str, schedule: &str, verdict: &str) -> i64 {
    let row = page.split("data-schedule=\"").skip(1).find(|row| row.starts_with(&format!("{schedule}\"")));
    let row = row.unwrap_or_else(|| panic!("no row of {schedule}"));
    let marks = row.split("data-verdict=\"").skip(1).filter(|mark| mark.starts_with(&format!("{verdict}\"")));
    let count = |mark: &str| {
        let tag = mark.split('>').next().unwrap();
        tag.split("data-count=\"").nth(1).map_or(1, |rest| rest.split('"').next().unwrap().parse::<i64>().unwrap())
    };
    marks.map(count).sum()
}

#[test]
fn the_page_counts_what_the_ledger_has() {
    let cluster = Cluster::new();
    let mut db = world(&cluster);
    let page = page(&mut db);
    for (schedule, verdict, status) in [("good", "ran", "SUCCESS"), ("bad", "failed", "FAILED")] {
        let query =
            format!("select count(*) from sched.execution where status = '{status}' and schedule_name = '{schedule}'");
        assert_eq!(drawn(&page, schedule, verdict), one::<i64>(&mut db, &query), "{schedule}");
    }
    assert!(drawn(&page, "resting", "skipped") > 0, "what a paused schedule passes over");
    assert!(page.contains("class=\"now\""));
    assert!(!page.contains("<script>alert"), "a name got out of its place");
    assert_eq!(page.matches("<script").count(), page.matches("</script>").count());

    // What is too much to walk is counted.
    db.batch_execute("select sched.define_job('often'), sched.create_schedule('often', 'every 1 millisecond', 'often', overlap => 'skip')").unwrap();
    wait_for(&mut db, "select count(*) > 0 from sched.execution where schedule_name = 'often'", SOON);
    let page: String = one(&mut db, "select sched.report()");
    assert!(drawn(&page, "often", "planned") > 80_000_000, "a day of milliseconds");
    assert!(page.len() < 600_000, "{} bytes", page.len());
}

#[test]
fn readers_see_what_is_theirs() {
    let cluster = Cluster::new();
    let mut db = world(&cluster);
    db.batch_execute(
        "create role app login; create role ops login; select sched.grant_use('app'), sched.grant_monitor('ops');
         set role app; select sched.schedule_sql('its own', 'every 1 hour', 'select 1', payload => '\"a secret\"'); reset role",
    )
    .unwrap();
    for (role, sees) in [("app", vec!["its own"]), ("ops", vec!["its own", "good", "bad"])] {
        let mut reader = cluster.connect_as(role, "postgres");
        let page = page(&mut reader);
        for name in ["its own", "good", "bad"] {
            assert_eq!(page.contains(&format!("data-schedule=\"{name}\"")), sees.contains(&name), "{role} and {name}");
        }
        assert!(!page.contains("a secret"), "a payload");
        let refused =
            reader.query("select * from sched.timeline('good')", &[]).err().and_then(|error| error.code().cloned());
        assert_eq!(refused.map(|code| code.code().to_owned()), (role == "app").then(|| "42704".to_owned()), "{role}");
    }
}

/// The cause of a failure, for whoever may read it; alerts, as far as the pattern goes; and where and when all of that is.
#[test]
fn the_page_says_why_a_run_failed() {
    let cluster = Cluster::builder().set("cluster_name", "shop-eu").start();
    let mut db = cluster.with_extension("postgres");
    db.batch_execute(
        "create role ops login; select sched.grant_monitor('ops');
         select sched.define_job('mail', max_attempts => 1);
         select sched.create_schedule(name, 'every 1 second', 'mail') from unnest('{mails,others}'::text[]) name;
         select sched.create_schedule('resting', 'every 1 minute', 'mail')",
    )
    .unwrap();
    wait_for(&mut db, "select count(distinct schedule_name) = 2 from sched.execution", SOON);
    assert!(drawn(&page(&mut db), "resting", "planned") > 0);
    db.batch_execute("select sched.pause('resting')").unwrap();
    db.batch_execute(
        "select sched.finish_failure(execution_id, lease_token, 'smtp', E'connection refused\nby the server', terminal => true) from sched.claim(max_claims => 1000)",
    )
    .unwrap();
    wait_for(&mut db, "select count(*) = 2 from sched.alerts where kind = 'failed'", SOON);
    let owners = page(&mut db);
    assert!(owners.contains("<b><bdi>smtp</bdi></b>: <bdi>connection refused</bdi></td>"), "{owners}");
    assert!(!owners.contains("by the server") && !owners.contains('\u{fffd}'));
    assert!(owners.contains("<bdi>shop-eu</bdi>, as of "));
    // A paused schedule plans nothing.
    assert_eq!(drawn(&owners, "resting", "planned"), 0);
    let monitors = page(&mut cluster.connect_as("ops", "postgres"));
    assert!(monitors.contains("<b><bdi>smtp</bdi></b></td>") && !monitors.contains("connection refused"));
    let some: String = one(&mut db, &format!("select sched.report({AN_HOUR}, 'mail%')"));
    assert!(some.contains("Only schedules like <b><bdi>mail%</bdi></b>") && !some.contains("others"), "{some}");
    assert!(some.contains("Open alerts <b>1</b>"));
    // An alert that was resolved is there, as one.
    db.batch_execute("select sched.drop_schedule('others')").unwrap();
    wait_for(&mut db, "select count(*) = 1 from sched.alert where resolved_at is not null", SOON);
    let after = page(&mut db);
    assert!(after.contains("Resolved alerts <b>1</b>") && after.contains("Open alerts <b>1</b>"));
}

#[test]
fn a_timeline_fits_a_terminal() {
    let cluster = Cluster::new();
    let mut db = world(&cluster);
    let lines = db.query(&format!("select * from sched.timeline('bad', {AN_HOUR})"), &[]).unwrap();
    assert!(lines.len() > 2);
    for line in &lines {
        let line: String = line.get(0);
        assert!(line.chars().count() <= 80, "{line}");
    }
    for (query, code) in [
        ("select sched.report(now(), now())", "22023"),
        ("select sched.report('-infinity')", "22008"),
        ("select sched.report(null)", "22004"),
        ("select sched.report(schedule_like => null)", "22004"),
        ("select sched.report(time_zone => 'Mars/Olympus')", "22023"),
        ("select sched.timeline('nobody')", "42704"),
        ("select sched.timeline(null)", "22004"),
    ] {
        let error = db.query(query, &[]).expect_err(query);
        assert_eq!(error.code().unwrap().code(), code, "{query}");
    }
}
