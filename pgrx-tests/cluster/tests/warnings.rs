//! What a session is warned of when it writes a schedule that will not fire.

use scheduler_cluster_tests::Cluster;

#[test]
fn a_schedule_whose_clock_has_no_time_ahead_is_warned_of() {
    let cluster = Cluster::builder().set("sched.enabled", "off").start();
    let mut db = cluster.with_extension("postgres");
    db.batch_execute("select sched.define_job('job')").unwrap();
    let mut said = 0;
    let mut warnings = |statement: &str| {
        db.batch_execute(&format!("select {statement}")).unwrap();
        let all = cluster.logged("WARNING:  ");
        let new: Vec<String> =
            all[said..].iter().map(|line| line.split_once("WARNING:  ").unwrap().1.to_owned()).collect();
        said = all.len();
        new
    };
    for quiet in [
        "sched.create_schedule('grid', 'every 1 hour', 'job')",
        "sched.create_schedule('by hand', 'never', 'job')",
        "sched.create_schedule('once', 'at 2999-01-01 00:00+00', 'job')",
        "sched.alter_schedule('grid', payload => '1')",
        "sched.create_schedules('[{\"schedule_name\": \"bulk\", \"clock\": \"@daily\", \"job_name\": \"job\"}]')",
    ] {
        assert_eq!(warnings(quiet), [""; 0], "{quiet}");
    }
    let passed = "schedule \"passed\" will not fire: the clock \"at 2001-01-01 00:00+00\" has no time ahead";
    assert_eq!(warnings("sched.create_schedule('passed', 'at 2001-01-01 00:00+00', 'job')"), [passed]);
    assert!(!cluster.logged("HINT:  Check the date").is_empty(), "it has a hint");
    // What does not touch its plan times says it no more.
    assert_eq!(warnings("sched.alter_schedule('passed', payload => '1')"), [""; 0]);
    assert_eq!(warnings("sched.alter_schedule('passed', new_name => 'old')"), [""; 0]);
    assert_eq!(warnings("sched.pause('old')"), [""; 0]);
    assert_eq!(warnings("sched.resume('old')"), [passed.replace("\"passed\"", "\"old\"")]);
    assert_eq!(
        warnings("sched.alter_schedule('grid', clock => '0 0 30 2 *')"),
        ["schedule \"grid\" will not fire: the clock \"0 0 30 2 *\" has no time ahead"]
    );
    // A zone of its own: 2001 in all of them.
    assert_eq!(warnings("sched.alter_schedule('old', time_zone => 'Europe/Berlin')").len(), 1);
    for window in ["ends_at => now()", "starts_at => now() + interval '1 hour', ends_at => now() + interval '2 hours'"]
    {
        assert_eq!(
            warnings(&format!("sched.alter_schedule('once', {window})")),
            ["schedule \"once\" will not fire: the clock \"at 2999-01-01 00:00+00\" has no time ahead within starts_at and ends_at"]
        );
    }
    let element = |name: &str, clock: &str| {
        format!("{{\"schedule_name\": \"{name}\", \"clock\": \"{clock}\", \"job_name\": \"job\"}}")
    };
    let specs = [element("a", "@daily"), element("b", "at 2001-01-01"), element("c", "0 0 30 2 *")].join(",");
    assert_eq!(
        warnings(&format!("sched.create_schedules('[{specs}]')")),
        ["element 2, key \"clock\": schedule \"b\" will not fire: the clock \"at 2001-01-01\" has no time ahead, nor have those of 1 more"]
    );
}
