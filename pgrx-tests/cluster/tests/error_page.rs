//! `docs/reference/errors.md` has every SQLSTATE that the library raises. What its blocks show is run by `pages.rs`; here each code of it is
//! seen to be the one that a block raises, or its section names the test that does.

use crate::pages;
use scheduler_cluster_tests::scheduler::{switch_off, SOON};
use scheduler_cluster_tests::{repository, wait_for, Cluster};
use std::collections::BTreeSet;
use std::fs;
use std::path::Path;

/// The server's names of codes that we raise. A new one in the sources fails the test until it is here, and on the page.
const CODES: [(&str, &str); 21] = [
    ("CHARACTER_NOT_IN_REPERTOIRE", "22021"),
    ("CONFIGURATION_LIMIT_EXCEEDED", "53400"),
    ("DATETIME_FIELD_OVERFLOW", "22008"),
    ("DEPENDENT_OBJECTS_STILL_EXIST", "2BP01"),
    ("DUPLICATE_OBJECT", "42710"),
    ("FEATURE_NOT_SUPPORTED", "0A000"),
    ("INSUFFICIENT_PRIVILEGE", "42501"),
    ("INTERNAL_ERROR", "XX000"),
    ("INVALID_PARAMETER_VALUE", "22023"),
    ("INVALID_SCHEMA_NAME", "3F000"),
    ("LOCK_NOT_AVAILABLE", "55P03"),
    ("NULL_VALUE_NOT_ALLOWED", "22004"),
    ("OBJECT_IN_USE", "55006"),
    ("OBJECT_NOT_IN_PREREQUISITE_STATE", "55000"),
    ("OUT_OF_MEMORY", "53200"),
    ("PROGRAM_LIMIT_EXCEEDED", "54000"),
    ("T_R_SERIALIZATION_FAILURE", "40001"),
    ("UNDEFINED_OBJECT", "42704"),
    ("UNDEFINED_TABLE", "42P01"),
    ("UNIQUE_VIOLATION", "23505"),
    ("WARNING", "01000"),
];
/// Codes that the sources name to catch them, or to say that there is no error.
const CAUGHT: [&str; 10] = [
    "ADMIN_SHUTDOWN",
    "CANT_CHANGE_RUNTIME_PARAM",
    "INVALID_AUTHORIZATION_SPECIFICATION",
    "INVALID_NAME",
    "QUERY_CANCELED",
    "STATEMENT_TOO_COMPLEX",
    "SUCCESSFUL_COMPLETION",
    "T_R_DEADLOCK_DETECTED",
    "UNDEFINED_COLUMN",
    "UNDEFINED_FUNCTION",
];
/// What nothing raises, as long as there is no fault in the extension.
const NEVER: &str = "XX000";
/// What the server raises by itself, on the page because our users meet it.
const OF_THE_SERVER: [&str; 2] = ["25006", "42601"];

fn page() -> String {
    fs::read_to_string(repository().join("docs/reference/errors.md")).unwrap()
}

/// (code, text) of each section whose heading is a SQLSTATE.
fn sections(page: &str) -> Vec<(&str, &str)> {
    let parts = page.split("\n## ").skip(1).filter_map(|part| part.split_once('\n'));
    parts.filter(|(heading, _)| heading.len() == 5 && heading.chars().all(|c| c.is_ascii_alphanumeric())).collect()
}

/// What follows `ERRCODE_` in the sources under a folder.
fn named_under(folder: &Path, found: &mut BTreeSet<String>) {
    for entry in fs::read_dir(folder).unwrap() {
        let path = entry.unwrap().path();
        if path.is_dir() {
            named_under(&path, found);
        } else if path.extension().is_some_and(|ending| ending == "rs") {
            let text = fs::read_to_string(&path).unwrap();
            let name =
                |rest: &str| rest.split(|c: char| !c.is_ascii_uppercase() && c != '_').next().unwrap().to_owned();
            found.extend(text.split("ERRCODE_").skip(1).map(name));
        }
    }
}

#[test]
fn every_sqlstate_of_the_sources_has_its_section() {
    let mut named = BTreeSet::new();
    named_under(&repository().join("src"), &mut named);
    let page = page();
    let mut missing = Vec::new();
    for name in named.iter().filter(|name| !CAUGHT.contains(&name.as_str())) {
        let code = CODES.iter().find(|(known, _)| known == name).map(|(_, code)| *code);
        if !code.is_some_and(|code| sections(&page).iter().any(|(section, _)| *section == code)) {
            missing.push(name);
        }
    }
    assert!(missing.is_empty(), "without a section in docs/reference/errors.md: {missing:?}");
    for (code, _) in sections(&page) {
        let raised = CODES.iter().any(|(name, known)| *known == code && named.contains(*name));
        assert!(raised || OF_THE_SERVER.contains(&code), "{code} is on the page, and nothing raises it");
    }
}

#[test]
fn every_sqlstate_of_the_page_is_raised() {
    let page = page();
    let steps = pages::steps(&page);
    let cluster = pages::server(&steps).unwrap();
    let mut raised: BTreeSet<(&str, String)> = BTreeSet::new();
    for step in &steps {
        // psql remembers the code of the last error.
        let printed = pages::psql(&cluster, &format!("{}\n\\echo code :LAST_ERROR_SQLSTATE", step.sql));
        let code = printed.lines().rev().find_map(|line| line.strip_prefix("code ")).unwrap_or_default().to_owned();
        raised.insert((step.heading.as_str(), code));
    }
    let mut tests = String::new();
    for folder in ["pgrx-tests", "core/tests"] {
        all_text(&repository().join(folder), &mut tests);
    }
    for (code, text) in sections(&page) {
        if code == NEVER || raised.contains(&(code, code.to_owned())) {
            continue;
        }
        let names: Vec<&str> = text
            .lines()
            .filter(|line| line.starts_with("Tests: "))
            .flat_map(|line| line.split('`').skip(1).step_by(2))
            .collect();
        assert!(!names.is_empty(), "no block under {code} raises it, and no line `Tests: ` names a test that does");
        for name in names {
            assert!(tests.contains(&format!("fn {name}(")), "{code}: there is no test {name}");
        }
    }
}

fn all_text(folder: &Path, text: &mut String) {
    for entry in fs::read_dir(folder).unwrap() {
        let path = entry.unwrap().path();
        if path.is_dir() {
            all_text(&path, text);
        } else if path.extension().is_some_and(|ending| ending == "rs") {
            text.push_str(&fs::read_to_string(&path).unwrap());
        }
    }
}

#[test]
fn a_rebuild_says_that_a_run_is_just_being_ended() {
    let cluster = Cluster::new();
    let mut db = cluster.with_extension("postgres");
    db.batch_execute(
        "select sched.define_job('job'); select sched.create_schedule('s', 'every 100 milliseconds', 'job')",
    )
    .unwrap();
    wait_for(&mut db, "select count(*) > 0 from sched.execution", SOON);
    switch_off(&cluster, &mut db);
    // An edit that no dispatcher has seen: from now on the schedule cares about its unfinished runs.
    db.batch_execute("select sched.alter_schedule('s', overlap => 'skip'); select sched.claim()").unwrap();
    let mut runner = cluster.connect();
    let ends = "begin; select sched.finish_success(id, lease_token) from sched.execution where status = 'RUNNING'";
    runner.batch_execute(ends).unwrap();
    let error = db.batch_execute("select sched.rebuild()").unwrap_err();
    assert_eq!(error.code().map(|code| code.code()), Some("55P03"), "{error}");
    runner.batch_execute("commit").unwrap();
    db.batch_execute("select sched.rebuild()").unwrap();
}
