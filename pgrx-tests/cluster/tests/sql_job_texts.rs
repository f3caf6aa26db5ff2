//! What the text of a command is to a run: how its strings are read, and what is said where a statement stands at a wrong place.

use scheduler_cluster_tests::scheduler::one;
use scheduler_cluster_tests::sql_jobs::{define, ended, enqueue};
use scheduler_cluster_tests::{Client, Cluster};

/// Runs a job once: status, its error code, and the error or the first value.
fn run(db: &mut Client, job: &str) -> (String, String, String) {
    let id = enqueue(db, job, 1).remove(0);
    let (status, code) = ended(db, &id);
    let said =
        format!("select coalesce(error_msg, result -> 'rows' -> 0 ->> 0, '') from sched.execution where id = '{id}'");
    (status, code, one(db, &said))
}

/// A command is stored by one session and run by another: neither says what is a string in it.
#[test]
fn strings_are_read_as_the_job_says_and_not_as_a_session_does() {
    const QUOTED: &str = "select 'a\\', ' || current_user || '";
    let cluster = Cluster::new();
    let mut root = cluster.with_extension("postgres");
    root.batch_execute("create role app login; select sched.grant_use('app')").unwrap();
    let mut app = cluster.connect_as("app", "postgres");
    for (session, role) in [("on", "on"), ("off", "on"), ("on", "off"), ("off", "off")] {
        root.batch_execute(&format!("alter role app set standard_conforming_strings = {role}")).unwrap();
        app.batch_execute(&format!("set standard_conforming_strings = {session}")).unwrap();
        define(&mut app, "standard", QUOTED, "");
        let expected = ("SUCCESS".to_owned(), String::new(), "a\\".to_owned());
        assert_eq!(run(&mut app, "standard"), expected, "session {session}, role {role}");
        let tested = "select result -> 'rows' -> 0 ->> 0 from sched.test_job('standard')";
        assert_eq!(one::<String>(&mut app, tested), "a\\", "session {session}");
        app.execute("select sched.schedule_sql('scheduled', '@daily', $1)", &[&QUOTED]).unwrap();
        assert_eq!(run(&mut app, "scheduled"), expected, "session {session}, role {role}");
        // Said in settings.
        let off = r#"settings => '{"Standard_Conforming_Strings": "off"}'"#;
        define(&mut app, "escaping", r"select 'it\'s'", off);
        assert_eq!(run(&mut app, "escaping").2, "it's", "session {session}, role {role}");
        let tested = "select result -> 'rows' -> 0 ->> 0 from sched.test_job('escaping')";
        assert_eq!(one::<String>(&mut app, tested), "it's", "session {session}");
        let refused = app.execute("select sched.alter_job('escaping', reset => '{settings}')", &[]).unwrap_err();
        assert_eq!(refused.code().unwrap().code(), "42601", "session {session}");
        // The session's own statements are read as it says.
        assert_eq!(one::<String>(&mut app, "show standard_conforming_strings"), session);
    }
}

const PLACE: &str =
    "HINT:  VACUUM and its kin must each be a statement of the command itself: no function can run them.";
const COMMITS: &str = "HINT:  Only a procedure or block commits that CALL or DO runs as a statement of the command itself, outside of a block with EXCEPTION.";

/// Where the hint is a call, that call is all that is missing.
#[test]
fn a_transaction_at_a_wrong_place_is_told_what_to_do() {
    let cluster = Cluster::new();
    let mut db = cluster.with_extension("postgres");
    db.batch_execute(
        "create function vacuums() returns void language plpgsql as $$ begin vacuum; end $$;
         create function commits() returns void language plpgsql as $$ begin commit; end $$;
         create procedure purge() language plpgsql as $$ begin commit; end $$;
         create procedure catches() language plpgsql as $$ begin begin commit; exception when division_by_zero then null; end; end $$",
    )
    .unwrap();
    const CALL: &str = "sched.alter_job('it''s', own_transactions => true)";
    let own = "own_transactions => true";
    for (command, code, hint, call, helps) in [
        ("vacuum", "25001", "", Some(": each statement then has a transaction of its own."), true),
        ("select 1; vacuum", "25001", "", Some(": each statement then has a transaction of its own."), true),
        ("call purge()", "2D000", "", Some(": a procedure or block of the command may then commit."), true),
        (
            "do $$ begin commit; end $$",
            "2D000",
            "",
            Some(": a procedure or block of the command may then commit."),
            true,
        ),
        ("select vacuums()", "25001", PLACE, Some("."), false),
        ("select commits()", "2D000", COMMITS, Some("."), false),
        ("call catches()", "2D000", "", Some(": a procedure or block of the command may then commit."), false),
        ("select 1; set transaction isolation level serializable", "25001", "", None, false),
    ] {
        define(&mut db, "it's", command, "");
        let (_, found, said) = run(&mut db, "it's");
        assert_eq!(found, code, "{command}: {said}");
        let line = said.lines().find(|line| line.starts_with("HINT:")).unwrap_or("").to_owned();
        let expected = match (hint, call) {
            (_, None) => String::new(),
            ("", Some(end)) => format!("HINT:  Call {CALL}{end}"),
            (hint, Some(end)) => format!("{hint} Then call {CALL}{end}"),
        };
        assert_eq!(line, expected, "{command}");
        let tested: String = one(&mut db, "select error_code || ' ' || error_msg from sched.test_job('it''s')");
        assert!(tested.starts_with(code) && tested.contains(&expected), "{command}: {tested}");
        if call.is_some() {
            db.batch_execute(&format!("select {CALL}")).unwrap();
        } else {
            define(&mut db, "it's", command, own);
        }
        let (status, _, said) = run(&mut db, "it's");
        if helps {
            assert_eq!(status, "SUCCESS", "{command}: {said}");
        } else if call.is_some() {
            let expected = if code == "25001" { PLACE } else { COMMITS };
            assert!(said.lines().any(|line| line == expected), "{command}: {said}");
        }
    }
}
