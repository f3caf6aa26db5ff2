//! The SQL on every page, typed in from top to bottom. A reader who follows a page must see what it shows, so the test runs each block
//! and compares:
//!
//! - A block fenced ` ```sql ` goes to psql, each one to a psql of its own, as superuser in one database. A page has a server of its own.
//! - A block fenced ` ```text ` right after it (blank lines between do not count) is what psql must print, notices and errors included.
//!   Without one the statements need only succeed.
//! - `…` in the output stands for any text within a line: times, ids, process numbers. The width of columns does not count.
//! - ` ```sql wait ` is asked again, for at most 2 minutes, until the output is as shown: for what the worker does by itself.
//! - Blocks with another language, ` ```sh ` say, are not run.
//!
//! A page that does not create the extension itself finds it there, with a dispatcher.

use scheduler_cluster_tests::proc::Program;
use scheduler_cluster_tests::tables::*;
use scheduler_cluster_tests::{celery, pg_cron, pgagent, repository, router, wait_until, Cluster};
use std::collections::BTreeSet;
use std::fs;
use std::io::Write as _;
use std::path::{Path, PathBuf};
use std::process::Stdio;
use std::time::{Duration, Instant};

const DEADLINE: Duration = Duration::from_secs(120);
/// The folders under docs/ that have a test of their own, so that they run side by side.
const FOLDERS: [&str; 4] = ["guides", "reference", "operations", "internals"];

#[derive(Debug)]
pub struct Step {
    /// The text of the last heading above it.
    pub heading: String,
    pub line: usize,
    pub sql: String,
    wait: bool,
    pub expected: Option<String>,
}

#[test]
fn the_readme_and_what_else_lies_outside_of_docs() {
    let docs = repository().join("docs");
    let pages: Vec<PathBuf> = pages_under(&repository()).into_iter().filter(|page| !page.starts_with(&docs)).collect();
    run(&pages);
}

#[test]
fn the_first_pages_of_docs() {
    let docs = repository().join("docs");
    let (deeper, pages): (Vec<PathBuf>, Vec<PathBuf>) =
        pages_under(&docs).into_iter().partition(|page| page.parent() != Some(&docs));
    let folder = |page: &PathBuf| page.strip_prefix(&docs).unwrap().iter().next().unwrap().to_owned();
    let folders: BTreeSet<_> = deeper.iter().map(folder).collect();
    assert!(folders.iter().all(|folder| FOLDERS.iter().any(|known| folder == known)), "a test for each of {folders:?}");
    run(&pages);
}

#[test]
fn the_guides() {
    run(&pages_under(&repository().join("docs").join(FOLDERS[0])));
}

#[test]
fn the_reference() {
    run(&pages_under(&repository().join("docs").join(FOLDERS[1])));
}

#[test]
fn operations() {
    run(&pages_under(&repository().join("docs").join(FOLDERS[2])));
}

#[test]
fn internals() {
    run(&pages_under(&repository().join("docs").join(FOLDERS[3])));
}

/// Every page that was written here, as paths.
fn pages_under(folder: &Path) -> Vec<PathBuf> {
    let mut pages = Vec::new();
    for entry in fs::read_dir(folder).unwrap_or_else(|error| panic!("{}: {error}", folder.display())) {
        let path = entry.unwrap().path();
        let name = path.file_name().unwrap().to_string_lossy().into_owned();
        if path.is_dir() {
            if !name.starts_with('.') && !["target", "node_modules", "results"].contains(&name.as_str()) {
                pages.extend(pages_under(&path));
            }
        } else if name.ends_with(".md") {
            pages.push(path);
        }
    }
    pages.sort();
    pages
}

/// Runs the pages, also those after one that is wrong, and fails with all that is.
fn run(pages: &[PathBuf]) {
    assert!(!pages.is_empty(), "no pages");
    let faults: Vec<String> = pages.iter().flat_map(|page| faults(page)).collect();
    assert!(faults.is_empty(), "{} blocks are not what psql prints\n\n{}", faults.len(), faults.join("\n\n"));
}

/// The blocks of a page that are not true.
fn faults(path: &Path) -> Vec<String> {
    let page = fs::read_to_string(path).unwrap_or_else(|error| panic!("{}: {error}", path.display()));
    let steps = steps(&page);
    if steps.is_empty() {
        return Vec::new();
    }
    let name = path.strip_prefix(repository()).unwrap().display().to_string();
    let Some(cluster) = server(&steps) else { return Vec::new() };
    let _programs = celery_beside(&cluster, &steps);
    timetable_beside(&cluster, &steps);
    steps.iter().filter_map(|step| fault(&cluster, &name, step)).collect()
}

/// A server with the database `tour` for a page's blocks; `None` where a page is about pg_cron or pgAgent, and this server has none.
pub fn server(steps: &[Step]) -> Option<Cluster> {
    let is_about_pg_cron = steps.iter().any(|step| step.sql.contains("CREATE EXTENSION pg_cron"));
    if steps.iter().any(|step| step.sql.contains("CREATE EXTENSION pgagent")) && !pgagent::is_there() {
        return None;
    }
    if steps.iter().any(|step| step.sql.contains("CREATE EXTENSION plproxy")) && !router::is_there() {
        return None;
    }
    let cluster = if is_about_pg_cron { pg_cron::server(&[("cron.database_name", "tour")])? } else { Cluster::new() };
    cluster.execute("create database tour");
    let creates_it = |step: &Step| step.sql.to_lowercase().contains("create extension scheduler");
    if !steps.iter().any(creates_it) {
        cluster.with_extension("tour");
    }
    Some(cluster)
}

/// Beat and a worker with tasks of theirs in the database, for a page that is about them.
fn celery_beside(cluster: &Cluster, steps: &[Step]) -> Option<(celery::Redis, [Program; 3])> {
    if !steps.iter().any(|step| step.sql.contains("django_celery_beat")) {
        return None;
    }
    let broker = celery::Redis::start(cluster);
    celery::tables(cluster, "tour", true);
    Some((broker, [celery::beat(cluster, "tour"), celery::worker(cluster, "tour"), celery::sender(cluster, "tour")]))
}

/// pg_timetable's tables in the database, for a page that is about them.
fn timetable_beside(cluster: &Cluster, steps: &[Step]) {
    if steps.iter().any(|step| step.sql.contains("INTO timetable.chain")) {
        let tables = include_str!("../../data/pg_timetable.sql").replace("{schema}", "timetable");
        cluster.connect_as("postgres", "tour").batch_execute(&tables).unwrap();
    }
}

/// What is wrong with a block, if anything.
fn fault(cluster: &Cluster, page: &str, step: &Step) -> Option<String> {
    let started = Instant::now();
    // A step is asked once unless it says `wait`: asking again would do it again.
    wait_until("the output that a page shows", DEADLINE * 2, || {
        let printed = psql(cluster, &step.sql);
        let Some(expected) = &step.expected else {
            let failed = printed.contains("ERROR:") || printed.contains("FATAL:");
            let fault = format!("{page}:{}\n{}\n---- printed ----\n{printed}", step.line, step.sql);
            return Some(failed.then_some(fault));
        };
        if same(expected, &printed) {
            return Some(None);
        }
        if step.wait && started.elapsed() < DEADLINE {
            return None;
        }
        let (line, sql) = (step.line, &step.sql);
        let fault =
            format!("{page}:{line}\n{sql}\n---- the page shows ----\n{expected}\n---- psql prints ----\n{printed}");
        Some(Some(fault))
    })
}

pub fn psql(cluster: &Cluster, sql: &str) -> String {
    let mut shell = cluster.psql("postgres", "tour");
    // On its input, not with -c: there each statement is a transaction of its own.
    // Together in the order of writing, as on a terminal: psql flushes its output before it prints a message.
    let both = cluster.folder().join("printed");
    let out = fs::File::create(&both).unwrap();
    shell.stdout(out.try_clone().unwrap()).stderr(out).stdin(Stdio::piped());
    let mut shell = shell.spawn().expect("cannot run psql");
    shell.stdin.take().unwrap().write_all(sql.as_bytes()).unwrap();
    shell.wait().unwrap();
    fs::read_to_string(&both).unwrap()
}

/// The `sql` blocks in order, each with the `text` block that follows it.
pub fn steps(markdown: &str) -> Vec<Step> {
    let mut steps: Vec<Step> = Vec::new();
    let mut heading = String::new();
    let mut lines = markdown.lines().enumerate();
    // Whether the last thing seen was an sql block, so that a text block is its output.
    let mut just_after_sql = false;
    while let Some((number, line)) = lines.next() {
        let Some(fence) = line.strip_prefix("```") else {
            if line.starts_with('#') {
                line.trim_start_matches('#').trim().clone_into(&mut heading);
            }
            just_after_sql &= line.trim().is_empty();
            continue;
        };
        let body: Vec<_> = lines.by_ref().map(|(_, line)| line).take_while(|line| !line.starts_with("```")).collect();
        let body = body.join("\n");
        match fence.trim() {
            "text" if just_after_sql => {
                steps.last_mut().expect("an sql block came before").expected = Some(body);
                just_after_sql = false;
            }
            "sql" | "sql wait" => {
                let (heading, wait) = (heading.clone(), fence.trim() == "sql wait");
                steps.push(Step { heading, line: number + 2, sql: body, wait, expected: None });
                just_after_sql = true;
            }
            _ => just_after_sql = false,
        }
    }
    steps
}

/// Line by line, but for blank lines at the end, runs of spaces and of dashes, and what `…` stands for.
fn same(expected: &str, printed: &str) -> bool {
    let (expected, printed) = (plain(expected), plain(printed));
    expected.len() == printed.len() && expected.iter().zip(&printed).all(|(pattern, line)| matches(pattern, line))
}

fn plain(text: &str) -> Vec<String> {
    let lines = text.trim().lines().map(|line| {
        let mut short = String::new();
        for c in line.trim().chars() {
            if !(matches!(c, ' ' | '-') && short.ends_with(c)) {
                short.push(c);
            }
        }
        short
    });
    lines.collect()
}

fn matches(pattern: &str, line: &str) -> bool {
    let Some((start, rest)) = pattern.split_once('…') else { return pattern == line };
    let Some(mut line) = line.strip_prefix(start) else { return false };
    let mut parts: Vec<_> = rest.split('…').collect();
    let end = parts.pop().unwrap_or_default();
    for part in parts {
        let Some(at) = line.find(part) else { return false };
        line = &line[at + part.len()..];
    }
    line.ends_with(end)
}

/// A test file that is renamed is renamed on the page as well.
#[test]
fn every_test_that_the_invariants_name_is_there() {
    fn stems(folder: &Path, found: &mut BTreeSet<String>) {
        for entry in fs::read_dir(folder).unwrap() {
            let path = entry.unwrap().path();
            found.insert(path.file_stem().unwrap().to_string_lossy().into_owned());
            if path.is_dir() {
                stems(&path, found);
            }
        }
    }
    let mut tests = BTreeSet::new();
    stems(&repository().join("core/tests"), &mut tests);
    stems(&repository().join("pgrx-tests"), &mut tests);
    let page = fs::read_to_string(repository().join("docs/internals/invariants.md")).unwrap();
    let shown = page.lines().filter(|line| line.starts_with("| I")).filter_map(|line| line.split(" | ").nth(2));
    let named: Vec<&str> = shown.flat_map(|cell| cell.split('`').skip(1).step_by(2)).collect();
    assert!(named.len() > 30, "{named:?}");
    let missing: Vec<_> = named.iter().filter(|name| **name != TIMER_TABLE && !tests.contains(**name)).collect();
    assert!(missing.is_empty(), "docs/internals/invariants.md names tests that there are not: {missing:?}");
}

#[test]
fn how_the_comparison_works() {
    let markdown = "Say\n# Head\n```sql\nselect 1;\n```\n\n```text\n 1\n```\nthen\n```text\nno\n```\n```sh\nls\n```\n```sql wait\nx\n```\nso\n";
    let steps = steps(markdown);
    let seen: Vec<_> =
        steps.iter().map(|step| (step.line, step.sql.as_str(), step.wait, step.expected.as_deref())).collect();
    assert_eq!(seen, [(4, "select 1;", false, Some(" 1")), (18, "x", true, None)]);
    assert!(steps.iter().all(|step| step.heading == "Head"));

    assert!(same(" a  | b\n----+---\n 1  | …\n", "  a   |  b \n------+----\n 1 | 2026-01-01\n\n"));
    assert!(same("id … at … end", "id 7 at 12:00 end"));
    assert!(!same("id … at … end", "id 7 on 12:00 end"));
    assert!(!same("one", "one\ntwo"));
    assert!(!same("(…)", "("));
}
