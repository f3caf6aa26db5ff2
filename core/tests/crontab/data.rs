//! The tables of real packages, all of them, against a golden file and against a count that knows nothing of the reader.
//! `UPDATE_GOLDEN=1 cargo test -p scheduler-core --test crontab` writes the file anew; read the difference before committing it.

use std::collections::{BTreeSet, HashSet};
use std::fmt::Write;
use std::fs;
use std::path::{Path, PathBuf};

use scheduler_core::crontab::{read, Style};

struct Table {
    package: String,
    name: String,
    style: Style,
    text: String,
}

fn folder() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("../pgrx-tests/data/crontabs")
}

fn tables() -> Vec<Table> {
    let manifest = fs::read_to_string(folder().join("MANIFEST.tsv")).unwrap();
    let table = |line: &str| {
        let columns: Vec<_> = line.split('\t').collect();
        let [package, version, path, style, licence] = columns[..] else { panic!("five columns: {line:?}") };
        assert!(![version, licence].contains(&""), "{line:?}");
        let style = match style {
            "user" => Style::User,
            "system" => Style::System,
            other => panic!("no style {other:?}"),
        };
        let name = format!("{package}/{}", path.rsplit('/').next().unwrap());
        let text = fs::read_to_string(folder().join(&name)).unwrap_or_else(|error| panic!("{name}: {error}"));
        Table { package: package.to_owned(), name, style, text }
    };
    manifest.lines().skip(1).map(table).collect()
}

/// The lines that are neither blank nor comments, found without the reader.
fn active_lines(text: &str) -> impl Iterator<Item = (usize, &str)> {
    let lines = text.split('\n').enumerate().map(|(index, line)| (index + 1, line.trim()));
    lines.filter(|(_, line)| !line.is_empty() && !line.starts_with('#'))
}

#[test]
fn every_file_is_in_the_manifest_and_there_are_enough() {
    let mut files = BTreeSet::new();
    for package in fs::read_dir(folder()).unwrap().map(|entry| entry.unwrap().path()).filter(|path| path.is_dir()) {
        for file in fs::read_dir(&package).unwrap() {
            files.insert(file.unwrap().path().strip_prefix(folder()).unwrap().to_str().unwrap().to_owned());
        }
    }
    let tables = tables();
    assert_eq!(files, tables.iter().map(|table| table.name.clone()).collect());
    let packages: HashSet<_> = tables.iter().map(|table| &table.package).filter(|package| *package != "user").collect();
    assert!(packages.len() >= 25, "{}", packages.len());
}

#[test]
fn every_table_reads_as_recorded() {
    let mut found = String::new();
    for table in tables() {
        writeln!(found, "== {} ({:?})", table.name, table.style).unwrap();
        for line in read(&table.text, table.style) {
            match line.entry {
                Ok(entry) => {
                    writeln!(found, "{} {} {:?}", line.number, entry.old_name, entry.clock).unwrap();
                    writeln!(found, "    {:?} {:?} {:?}", entry.time_zone, entry.user, entry.environment).unwrap();
                    writeln!(found, "    {:?} {:?}", entry.command, entry.stdin).unwrap();
                }
                Err(error) => writeln!(found, "{} error: {}\n    {}", line.number, error.message, error.hint).unwrap(),
            }
        }
    }
    let golden = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/data/crontabs.golden");
    if std::env::var_os("UPDATE_GOLDEN").is_some() {
        fs::write(&golden, &found).unwrap();
    }
    let expected = fs::read_to_string(&golden).unwrap_or_default();
    for (number, (found, expected)) in found.lines().zip(expected.lines()).enumerate() {
        assert_eq!(found, expected, "line {} of the golden file", number + 1);
    }
    assert_eq!(found.lines().count(), expected.lines().count(), "lines of the golden file");
}

#[test]
fn every_entry_of_a_package_is_read_but_for_those_at_boot() {
    for table in tables().iter().filter(|table| table.package != "user") {
        let begins_an_entry = |line: &str| line.starts_with(|c: char| c.is_ascii_digit() || c == '*' || c == '@');
        let lines: Vec<_> = active_lines(&table.text).filter(|(_, line)| begins_an_entry(line)).collect();
        let read: Vec<_> = read(&table.text, table.style).collect();
        assert_eq!(
            read.iter().map(|line| line.number).collect::<Vec<_>>(),
            lines.iter().map(|line| line.0).collect::<Vec<_>>()
        );
        for (line, (_, text)) in read.iter().zip(&lines) {
            assert_eq!(line.entry.is_err(), text.starts_with("@reboot"), "{}: {text:?}: {:?}", table.name, line.entry);
        }
    }
}

#[test]
fn nothing_of_an_entry_is_lost() {
    for table in tables() {
        let squeeze = |text: &str| text.replace([' ', '\t', '\n', '\r', '%', '\\'], "");
        for line in read(&table.text, table.style) {
            let Ok(entry) = line.entry else { continue };
            let written = active_lines(&table.text).find(|(number, _)| *number == line.number).unwrap().1;
            let parts = [entry.clock, entry.user.unwrap_or_default(), entry.command, entry.stdin.unwrap_or_default()];
            assert_eq!(squeeze(&parts.concat()), squeeze(written), "{} line {}", table.name, line.number);
        }
    }
}
