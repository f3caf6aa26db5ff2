//! The programs of docs/guides/drivers.md, typed in as they stand: what each driver makes of our types, of a notification, and of a lost
//! lease.

use crate::pages::steps;
use scheduler_cluster_tests::proc::Program;
use scheduler_cluster_tests::{python, repository, wait_until, Cluster};
use std::fs;
use std::os::unix::fs::symlink;
use std::process::Command;
use std::time::Duration;

const PATIENCE: Duration = Duration::from_secs(120);

#[test]
fn psycopg_3() {
    prints_what_the_page_shows("psycopg 3");
}

#[test]
fn asyncpg() {
    prints_what_the_page_shows("asyncpg");
}

#[test]
fn sqlalchemy() {
    prints_what_the_page_shows("SQLAlchemy 2");
}

#[test]
fn django() {
    prints_what_the_page_shows("Django");
}

#[test]
fn node_pg() {
    prints_what_the_page_shows("node pg");
}

#[test]
fn postgres_js() {
    prints_what_the_page_shows("postgres.js");
}

fn page() -> String {
    fs::read_to_string(repository().join("docs/guides/drivers.md")).unwrap()
}

/// The first block in this language of a text.
fn block<'page>(text: &'page str, language: &str) -> Option<&'page str> {
    let (_, rest) = text.split_once(&format!("\n```{language}\n"))?;
    rest.split("```").next()
}

fn prints_what_the_page_shows(driver: &str) {
    let page = page();
    let sections: Vec<&str> = page.split("\n## ").skip(1).collect();
    let tests = include_str!("drivers.rs").matches("#[test]").count() - 1;
    assert_eq!(sections.len(), tests, "a test for each section of the page");
    let section =
        sections.iter().find(|section| section.lines().next() == Some(driver)).expect("a section of this name");

    let cluster = Cluster::new();
    cluster.execute("create role app login");
    cluster.execute("create database app owner app");
    let mut admin = cluster.with_extension("app");
    admin.batch_execute("select sched.grant_use('app')").unwrap();
    let mut app = cluster.connect_as("app", "app");
    for step in steps(&page) {
        app.batch_execute(&step.sql).unwrap();
    }

    let folder = cluster.folder();
    symlink(repository().join("pgrx-tests/drivers/node_modules"), folder.join("node_modules")).unwrap();
    let (name, text, interpreter) = match (block(section, "python"), block(section, "javascript")) {
        (Some(text), None) => ("program.py", text, python()),
        (None, Some(text)) => ("program.mjs", text, "node".into()),
        (Some(_), Some(_)) | (None, None) => panic!("{driver}: one program, in Python or JavaScript"),
    };
    fs::write(folder.join(name), text).unwrap();
    let mut command = Command::new(interpreter);
    command.arg(folder.join(name));
    let mut program = Program::start(cluster.client(command, "app", "app"), &folder.join("program.log"));
    let ended = wait_until("the program to end by itself", PATIENCE, || program.ended());
    assert!(ended.success(), "{driver} failed ({ended}):\n{}", program.printed());
    assert_eq!(program.printed().trim(), block(&page, "text").unwrap().trim(), "{driver}");

    let rows = app
        .query("select status || ' ' || attempt || ' ' || result || ' ' || coalesce(payload->>'image', '') from sched.execution order by id", &[])
        .unwrap();
    let rows: Vec<String> = rows.iter().map(|row| row.get(0)).collect();
    assert_eq!(rows, ["SUCCESS 1 {\"ok\": true} 7", "SUCCESS 1 {} 8", "SUCCESS 1 {} 9"], "{driver}");
    let waits: String = app.query_one("select retry_backoff::text from sched.jobs", &[]).unwrap().get(0);
    assert_eq!(waits, "{00:00:30}", "{driver}");
}
