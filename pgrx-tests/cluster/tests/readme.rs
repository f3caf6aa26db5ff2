//! The tour in README.md, typed in from top to bottom. A reader who follows it must see what it shows, so the test runs each block
//! and compares:
//!
//! - A block fenced ` ```sql ` goes to psql, each one to a psql of its own, as superuser in one database.
//! - A block fenced ` ```text ` right after it (blank lines between do not count) is what psql must print, notices and errors included.
//!   Without one the statements need only succeed.
//! - `…` in the output stands for any text within a line: times, ids, process numbers. The width of columns does not count.
//! - ` ```sql wait ` is asked again, for at most 40 seconds, until the output is as shown: for what the worker does by itself.
//! - Blocks with another language, ` ```sh ` say, are not run.

use scheduler_cluster_tests::{repository, wait_until, Cluster};
use std::fs;
use std::io::Write as _;
use std::process::Stdio;
use std::time::{Duration, Instant};

const PATIENCE: Duration = Duration::from_secs(40);

#[derive(Debug)]
struct Step {
    line: usize,
    sql: String,
    wait: bool,
    expected: Option<String>,
}

#[test]
fn the_tour_shows_what_psql_prints() {
    let path = repository().join("README.md");
    let readme = fs::read_to_string(&path).unwrap_or_else(|error| panic!("{}: {error}", path.display()));
    let steps = steps(&readme);
    assert!(
        steps.iter().any(|step| step.expected.is_some()),
        "README.md has no ```sql block followed by a ```text block"
    );

    let cluster = Cluster::new();
    cluster.execute("create database tour");
    for step in &steps {
        let started = Instant::now();
        // A step is asked once unless it says `wait`: asking again would do it again.
        wait_until("the output that README.md shows", PATIENCE * 2, || {
            let printed = psql(&cluster, &step.sql);
            let Some(expected) = &step.expected else {
                assert!(
                    !printed.contains("ERROR:"),
                    "README.md:{}\n{}\n---- printed ----\n{printed}",
                    step.line,
                    step.sql
                );
                return Some(());
            };
            if same(expected, &printed) {
                return Some(());
            }
            assert!(
                step.wait && started.elapsed() < PATIENCE,
                "README.md:{}\n{}\n---- README.md shows ----\n{expected}\n---- psql prints ----\n{printed}",
                step.line,
                step.sql
            );
            None
        });
    }
}

fn psql(cluster: &Cluster, sql: &str) -> String {
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
fn steps(markdown: &str) -> Vec<Step> {
    let mut steps: Vec<Step> = Vec::new();
    let mut lines = markdown.lines().enumerate();
    // Whether the last thing seen was an sql block, so that a text block is its output.
    let mut just_after_sql = false;
    while let Some((number, line)) = lines.next() {
        let Some(fence) = line.strip_prefix("```") else {
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
                steps.push(Step { line: number + 2, sql: body, wait: fence.trim() == "sql wait", expected: None });
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

#[test]
fn how_the_comparison_works() {
    let markdown = "Say\n```sql\nselect 1;\n```\n\n```text\n 1\n```\nthen\n```text\nno\n```\n```sh\nls\n```\n```sql wait\nx\n```\nso\n";
    let steps = steps(markdown);
    let seen: Vec<_> =
        steps.iter().map(|step| (step.line, step.sql.as_str(), step.wait, step.expected.as_deref())).collect();
    assert_eq!(seen, [(3, "select 1;", false, Some(" 1")), (17, "x", true, None)]);

    assert!(same(" a  | b\n----+---\n 1  | …\n", "  a   |  b \n------+----\n 1 | 2026-01-01\n\n"));
    assert!(same("id … at … end", "id 7 at 12:00 end"));
    assert!(!same("id … at … end", "id 7 on 12:00 end"));
    assert!(!same("one", "one\ntwo"));
    assert!(!same("(…)", "("));
}
