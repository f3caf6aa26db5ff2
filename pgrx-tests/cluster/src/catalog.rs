//! What a database's catalogs say of the extension, and how two of them differ: an updated extension has to be what a new one is.

use postgres::Client;
use std::collections::BTreeSet;
use std::fmt::Write as _;

/// Each object of the extension in all its particulars, one line for each.
pub fn facts(client: &mut Client) -> BTreeSet<String> {
    client.batch_execute("set search_path = pg_catalog").unwrap();
    let rows = client.query(include_str!("catalog.sql"), &[]).unwrap_or_else(|error| panic!("catalog.sql: {error:?}"));
    rows.iter().map(|row| row.get(0)).collect()
}

/// The facts that only one of the two has; empty where they are equal.
pub fn difference(what: [&str; 2], one: &BTreeSet<String>, other: &BTreeSet<String>) -> String {
    let mut text = String::new();
    for (only, line) in
        one.difference(other).map(|line| (what[0], line)).chain(other.difference(one).map(|line| (what[1], line)))
    {
        writeln!(text, "only {only}: {line}").unwrap();
    }
    text
}
