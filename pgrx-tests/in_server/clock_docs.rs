//! `docs/reference/clocks.md` once more, in SQL: the core's own test runs every row against chrono-tz, this one through the functions that a
//! user calls and the server's zones.
#![allow(clippy::unwrap_used, clippy::expect_used, clippy::panic, reason = "test code")]

use pgrx::prelude::*;

#[pg_schema]
mod tests {
    use pgrx::prelude::*;

    use crate::test_support::{quote, sql};

    const PAGE: &str = include_str!("../../docs/reference/clocks.md");

    fn cells(line: &str) -> Vec<&str> {
        line.trim().trim_matches('|').split('|').map(|cell| cell.trim().trim_matches('`')).collect()
    }

    /// `2026-11-01 01:30-04`: the reading without seconds that are zero, and the offset.
    fn shown(row: &str) -> String {
        let (local, offset) = row.split_once('|').unwrap();
        let seconds: i64 = offset.parse().unwrap();
        let minutes = if seconds % 3600 == 0 { String::new() } else { format!(":{:02}", seconds.abs() / 60 % 60) };
        let sign = if seconds < 0 { '-' } else { '+' };
        format!("{}{sign}{:02}{minutes}", local.strip_suffix(":00").unwrap_or(local), seconds.abs() / 3600)
    }

    /// What the last cell of a row should say, under its table's header; `None` where that is not for SQL to say.
    fn expected(header: &[&str], row: &[&str]) -> Option<String> {
        let clock = quote(row[0]);
        let last = *row.last().unwrap();
        let header = *header.last().unwrap();
        if let Some(rest) = header.strip_prefix("next times in ") {
            let (zone, after) = rest.split_once(" after ").unwrap();
            let rows = sql(&format!(
                "SELECT local_time, extract(epoch FROM utc_offset)::bigint FROM sched.preview({clock}, '{zone}', '{after}', {})",
                last.split(", ").count()
            ));
            let times: Vec<String> = rows.lines().map(shown).collect();
            return Some(if times.is_empty() { "never".to_owned() } else { times.join(", ") });
        }
        Some(match header {
            "same as" => {
                let plans = |clock: &str| {
                    sql(&format!("SELECT array_agg(p) FROM sched.preview({clock}, 'Europe/Berlin', '2026-10-20 12:00+00', 500) p"))
                };
                assert_eq!(plans(&clock), plans(&quote(last)), "{row:?}");
                last.to_owned()
            }
            "note" => sql(&format!(
                "SELECT COALESCE(note, 'nothing') FROM sched.preview({clock}, 'America/New_York', '{}', 1)",
                row[1]
            )),
            "the hint shows" => {
                let said =
                    sql(&format!("SELECT severity, split_part(hint, '\"', 2) FROM sched.validate({clock}, 'UTC')"));
                said.strip_prefix("error|").unwrap_or_default().to_owned()
            }
            "warning" => {
                sql(&format!("SELECT code FROM sched.validate({clock}, '{}') WHERE severity = 'warning'", row[1]))
                    .replace('\n', ", ")
            }
            _ => return None,
        })
    }

    #[pg_test]
    fn every_table_of_the_page_on_clocks_is_true_in_sql() {
        let mut header: Option<Vec<&str>> = None;
        let (mut rows, mut wrong) = (0, Vec::new());
        for (number, line) in (1..).zip(PAGE.lines()) {
            if !line.starts_with('|') {
                header = None;
                continue;
            }
            let row = cells(line);
            match &header {
                None => header = Some(row),
                Some(_) if line.starts_with("| ---") => {}
                Some(header) => {
                    let last = *row.last().unwrap();
                    if let Some(right) = expected(header, &row).filter(|right| right != last) {
                        wrong.push(format!("line {number}: {right}"));
                    }
                    rows += 1;
                }
            }
        }
        assert!(wrong.is_empty(), "the page is wrong:\n{}", wrong.join("\n"));
        assert!(rows > 80, "{rows}");
    }
}
