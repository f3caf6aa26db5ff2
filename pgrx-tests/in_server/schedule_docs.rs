//! `docs/reference/policies.md` is true: every row of its tables is lived through.

use pgrx::prelude::*;

#[pg_schema]
#[allow(clippy::unwrap_used, reason = "test code")]
mod tests {
    use pgrx::prelude::*;
    use scheduler_core::schedule::SkipReason;
    use scheduler_core::Keyword;

    use crate::test_support::{check, run, sql, time_passes};

    const PAGE: &str = include_str!("../../docs/reference/policies.md");

    /// The cells of the rows of the table under a heading, without their backquotes.
    fn table(heading: &str) -> Vec<Vec<String>> {
        let section = PAGE.split(&format!("\n## {heading}\n")).nth(1).unwrap().split("\n## ").next().unwrap();
        let lines = section.lines().filter(|line| line.starts_with('|')).skip(2);
        let cells = |line: &str| line.trim_matches('|').split('|').map(|cell| cell.trim().replace('`', "")).collect();
        lines.map(cells).collect()
    }

    /// Walks to this many seconds after the creation of the schedules.
    fn walk_to(seconds: i64) {
        let passed = sql("SELECT max(extract(epoch FROM clock_timestamp() - created_at)) FROM sched.schedule");
        time_passes(&format!("{} seconds", seconds as f64 - passed.parse::<f64>().unwrap()));
    }

    /// Ends all runs but those of this plan time (in hours after the creation).
    fn end_runs(but: i64) {
        sql(&format!(
            "SELECT sched.cancel(e.id)
               FROM sched.execution e JOIN sched.schedule s USING (schedule_name)
              WHERE e.status = 'PENDING' AND e.plan_time <> s.created_at + interval '{but} hours'"
        ));
    }

    /// Dispatches until there is nothing more to do; runs end at once but for those of this plan time.
    fn dispatch_all(but: i64) {
        loop {
            let made = sql("SELECT sched.dispatch_due()");
            end_runs(but);
            if made == "0" && sql("SELECT count(*) FROM sched.schedule_change") == "0" {
                return;
            }
        }
    }

    /// What became of the first plan times, a word for each.
    fn verdicts(name: &str, hours: i64) -> Vec<String> {
        let found = sql(&format!(
            "SELECT string_agg(CASE e.verdict WHEN 'fired' THEN 'run' WHEN 'skipped' THEN e.reason ELSE e.verdict END, ' ' ORDER BY e.plan_time)
               FROM sched.schedule s, sched.explain(s.schedule_name, s.created_at, s.created_at + interval '{hours} hours 30 minutes') e
              WHERE s.schedule_name = '{name}'"
        ));
        found.split(' ').map(str::to_owned).collect()
    }

    #[pg_test]
    fn every_combination_of_policies_does_what_the_page_says() {
        let rows = table("Every combination");
        assert_eq!(rows.len(), 3 * 2 * 3 * 2);
        run(&["SELECT sched.define_job('sd/job')"]);
        for (n, row) in rows.iter().enumerate() {
            let window = if row[3] == "none" { "NULL".to_owned() } else { format!("'{}'", row[3]) };
            run(&[&format!(
                "SELECT sched.create_schedule('sd/{n}', 'every 1 hour', 'sd/job', catch_up => '{}', rearm => '{}', overlap => '{}', catch_up_window => {window})",
                row[0], row[1], row[2]
            )]);
        }
        let combinations = "SELECT count(DISTINCT (catch_up, rearm, overlap, catch_up_window)) FROM sched.schedule";
        check(combinations, "36");
        dispatch_all(1);
        for hour in 1..=3 {
            walk_to(hour * 3600 + 30);
            dispatch_all(1);
        }
        walk_to(3 * 3600 + 1800);
        end_runs(0);
        dispatch_all(0);
        walk_to(7 * 3600 + 1800);
        dispatch_all(0);
        walk_to(8 * 3600 + 30);
        dispatch_all(0);
        let line = |row: &[String], found: &[String]| format!("| {} | {} |", row[..4].join(" | "), found.join(" | "));
        let found: Vec<String> =
            rows.iter().enumerate().map(|(n, row)| line(row, &verdicts(&format!("sd/{n}"), 8))).collect();
        let wanted: Vec<String> = rows.iter().map(|row| line(row, &row[4..])).collect();
        assert_eq!(found, wanted, "what happened:\n{}\n", found.join("\n"));
    }

    #[pg_test]
    fn pauses_and_edits_do_what_the_page_says() {
        let rows = table("Pauses, owners and edits");
        assert!(rows.len() >= 6);
        run(&["SELECT sched.define_job('se/job')"]);
        for n in 0..rows.len() {
            run(&[&format!("SELECT sched.create_schedule('se/{n}', 'every 1 hour', 'se/job', delay => '20 minutes')")]);
        }
        let edit = |column: usize| {
            for (n, row) in rows.iter().enumerate().filter(|(_, row)| row[column] != "nothing") {
                run(&[&format!(
                    "SELECT sched.{}",
                    row[column].replacen('(', &format!("('se/{n}', "), 1).replace("', )", "')")
                )]);
            }
        };
        dispatch_all(0);
        walk_to(3600 + 1201);
        dispatch_all(0);
        // Plan 2 has come, but its delay has not passed.
        walk_to(2 * 3600 + 600);
        edit(0);
        dispatch_all(0);
        walk_to(4 * 3600 + 1800);
        edit(1);
        dispatch_all(0);
        walk_to(5 * 3600 + 1201);
        dispatch_all(0);
        let found: Vec<Vec<String>> = (0..rows.len()).map(|n| verdicts(&format!("se/{n}"), 6)).collect();
        let wanted: Vec<&[String]> = rows.iter().map(|row| &row[2..]).collect();
        assert_eq!(found, wanted, "what happened: {found:#?}");
    }

    #[pg_test]
    fn delay_and_jitter_do_what_the_page_says() {
        let rows = table("Delay and jitter");
        run(&["SELECT sched.define_job('sj/job')"]);
        for (n, row) in rows.iter().enumerate() {
            run(&[&format!(
                "SELECT sched.create_schedule('sj/{n}', 'every 1 hour', 'sj/job', delay => '{}', jitter => '{}')",
                row[0], row[1]
            )]);
        }
        run(&["SELECT sched.dispatch_due()"]);
        for (n, row) in rows.iter().enumerate() {
            let (least, most) = row[2].split_once(" to ").unwrap_or((&row[2], &row[2]));
            check(
                &format!(
                    "SELECT next_fire_at - next_plan_time BETWEEN '{least}' AND '{most}' FROM sched.schedules WHERE schedule_name = 'sj/{n}'"
                ),
                "t",
            );
        }
    }

    #[pg_test]
    fn kinds_do_what_the_page_says() {
        let rows = table("Kinds of job");
        for row in &rows {
            let kind = &row[0];
            run(&[
                &format!("SELECT sched.define_job('sk/{kind}', '{kind}', command => 'VACUUM')"),
                &format!(
                    "SELECT sched.create_schedule('sk/{kind}', 'every 1 hour', 'sk/{kind}', rearm => 'on_terminal')"
                ),
            ]);
        }
        run(&["SELECT sched.dispatch_due()"]);
        time_passes("61 minutes");
        run(&["SELECT sched.dispatch_due()", "SELECT sched.dispatch_due()"]);
        for row in &rows {
            let kind = &row[0];
            check(&format!("SELECT status FROM sched.execution WHERE schedule_name = 'sk/{kind}'"), &row[1]);
            check(&format!("SELECT state FROM sched.schedules WHERE schedule_name = 'sk/{kind}'"), &row[2]);
        }
    }

    /// The words of the page are those that explain can say.
    #[pg_test]
    fn the_page_names_every_verdict_and_reason() {
        let source = include_str!("../../src/dispatch/explain.rs");
        let words: Vec<Vec<String>> = [table("Verdicts"), table("Reasons")].into_iter().flatten().collect();
        let mut named: Vec<&str> = words.iter().map(|row| row[0].as_str()).collect();
        for word in named.iter().filter(|word| SkipReason::parse(word).is_none()) {
            assert!(source.contains(&format!("\"{word}\"")), "{word} is never said");
        }
        named.sort_unstable();
        let mut expected = vec![
            "backlog",
            "delay",
            "due",
            "external",
            "failing",
            "fired",
            "forgotten",
            "missed",
            "overlap",
            "parked",
            "paused",
            "planned",
            "replaced",
            "skipped",
            "waiting",
            "window",
            "external",
        ];
        expected.sort_unstable();
        assert_eq!(named, expected);
    }
}
