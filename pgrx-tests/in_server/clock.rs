//! next_time, preview and validate: what crosses the border between SQL and the core.

use pgrx::prelude::*;

#[pg_schema]
mod tests {
    use pgrx::prelude::*;

    use crate::test_support::{attempt, check, fails, quote, refused, run, sql};

    #[pg_test]
    fn next_time_is_strictly_after() {
        let next = |arguments: &str| format!("SELECT sched.next_time({arguments})");
        check(&next("'0 9 * * *', '2026-11-20 08:59:59.999999+00', 'UTC'"), "2026-11-20 09:00:00+00");
        check(&next("'0 9 * * *', '2026-11-20 09:00+00', 'UTC'"), "2026-11-21 09:00:00+00");
        check(
            &next("'0 9 * * *', after => '2026-11-20 09:00+00', time_zone => 'America/New_York'"),
            "2026-11-20 14:00:00+00",
        );
        check(&next("'0 0 31 2 *', '2026-11-20 09:00+00'"), "");
        check(&next("'never'"), "");
        check(&next("'at 2027-01-01 00:00+00', '2027-01-01 00:00+00'"), "");
        check(&next("'at 2027-01-01 00:00+00', '2026-12-31 00:00+00'"), "2027-01-01 00:00:00+00");
        check(&next("NULL, '2026-11-20 09:00+00'"), "");
        check(&next("'@daily', NULL"), "");
        // The default of after is now, to the microsecond.
        check(
            "SELECT sched.next_time('every 1 microsecond') > now(), sched.next_time('@yearly') > clock_timestamp()",
            "t|t",
        );
    }

    #[pg_test]
    fn every_counts_from_its_anchor() {
        check("SELECT sched.next_time('every 1 hour', '2026-11-20 09:00+00')", "2026-11-20 10:00:00+00");
        check(
            "SELECT sched.next_time('every 1 hour', '2026-11-20 09:00+00', anchor => '2026-01-01 00:07+00')",
            "2026-11-20 09:07:00+00",
        );
        check(
            "SELECT string_agg(p.local_time::text, ', ') FROM sched.preview('every 1 month from 2026-01-31 09:00', 'Europe/Berlin', '2026-01-31', 3) p",
            "2026-01-31 09:00:00, 2026-02-28 09:00:00, 2026-03-31 09:00:00",
        );
    }

    #[pg_test]
    fn preview_shows_both_clocks() {
        check(
            "SELECT * FROM sched.preview('30 2 * * *', 'Europe/Berlin', '2026-03-28 12:00+00', 2)",
            "2026-03-29 01:00:00+00|2026-03-29 03:00:00|02:00:00|skipped by DST: fires at 03:00 instead of 02:30\n\
             2026-03-30 00:30:00+00|2026-03-30 02:30:00|02:00:00|",
        );
        check("SELECT count(*) FROM sched.preview('@hourly')", "10");
        check("SELECT count(*) FROM sched.preview('@hourly', n => 0)", "0");
        check("SELECT count(*) FROM sched.preview('* * * * *', n => 10000)", "10000");
        check("SELECT count(*) FROM sched.preview('never')", "0");
        check("SELECT count(*) FROM sched.preview('at 2999-01-01 00:00+00', n => 5)", "1");
        check("SELECT count(*) FROM sched.preview(NULL)", "0");
        refused("SELECT * FROM sched.preview('@hourly', n => -1)", "22023");
        refused("SELECT * FROM sched.preview('@hourly', n => 10001)", "22023");
        refused("SELECT * FROM sched.preview('@hourly', n => NULL)", "22004");
    }

    #[pg_test]
    fn clock_bad_arguments() {
        for (arguments, sqlstate) in [
            ("'61 * * * *'", "22023"),
            ("''", "22023"),
            ("'* * * *'", "22023"),
            ("'every 0 seconds'", "22023"),
            ("'every -1 seconds'", "22023"),
            ("'every nonsense'", "22023"),
            ("'every 99999999999 years'", "22023"),
            ("'at 2026-13-01 00:00'", "22023"),
            ("'at nonsense'", "22023"),
            ("'at 2026-01-01 00:00+99'", "22023"),
            ("'at 9999999-01-01 00:00'", "22023"),
            ("'every 1 day from nonsense'", "22023"),
            ("'every 1 day from 2026-02-30 00:00'", "22023"),
            ("'at'", "22023"),
            ("'every 1 day from'", "22023"),
            ("'@daily', time_zone => 'Mars/Olympus'", "22023"),
            ("'@daily', time_zone => ''", "22023"),
            ("'@daily', after => 'infinity'", "22008"),
            ("'@daily', after => '-infinity'", "22008"),
            ("'every 1 day', anchor => 'infinity'", "22008"),
        ] {
            refused(&format!("SELECT sched.next_time({arguments})"), sqlstate);
        }
    }

    #[pg_test]
    fn the_fault_is_pointed_at() {
        let refusal = refused("SELECT sched.next_time('0 9 * * mno')", "22023");
        assert!(refusal.message.contains("mno"), "{}", refusal.message);
        check("SELECT severity, code, hint <> '' FROM sched.validate('0 9 * * mno')", "error|22023|t");
        check("SELECT severity, code FROM sched.validate('@daily', 'Mars/Olympus')", "error|22023");
        check("SELECT severity, code FROM sched.validate('61 * * * *', 'Mars/Olympus')", "error|22023\nerror|22023");
        check("SELECT count(*) FROM sched.validate('@daily', 'Europe/Berlin')", "0");
        check("SELECT DISTINCT severity FROM sched.validate('0 0 31 2 *')", "warning");
        refused("SELECT * FROM sched.validate(NULL)", "22004");
    }

    /// What validate calls an error is what next_time raises, and the other way round.
    #[pg_test]
    fn validate_and_next_time_agree() {
        for text in include_str!("../../core/tests/data/bad_clocks.txt").lines().filter(|line| !line.starts_with('#')) {
            let clock = quote(text.split('\t').next().unwrap_or_default());
            let raised = attempt(&format!("SELECT sched.next_time({clock}, '2026-11-20', 'UTC')"))
                .map(|refusal| refusal.sqlstate);
            let said = sql(&format!("SELECT code FROM sched.validate({clock}, 'UTC') WHERE severity = 'error'"));
            assert_eq!(raised.unwrap_or_default(), said, "{text}");
        }
    }

    #[pg_test]
    fn clocks_take_nothing_from_the_session() {
        let statement = "SELECT extract(epoch FROM sched.next_time('every 1 day from 2026-03-01 02:30', '2026-03-29 00:00+00', 'Europe/Berlin'))";
        let expected = sql(statement);
        for settings in [
            "SET LOCAL timezone = 'Asia/Tokyo'",
            "SET LOCAL datestyle = 'SQL, DMY'",
            "SET LOCAL intervalstyle = 'sql_standard'",
            "SET LOCAL lc_time = 'C'",
            "SET LOCAL search_path = ''",
        ] {
            run(&[settings]);
            check(statement, &expected);
        }
        check("SELECT utc_offset = interval '1 hour' FROM sched.preview('@daily', 'Europe/Berlin', '2026-12-01 00:00+00', 1)", "t");
    }

    #[pg_test]
    fn a_zone_is_found_as_postgres_finds_it() {
        check("SELECT sched.next_time('0 9 * * *', '2026-11-20 12:00+00', 'eUROPE/bERLIN')", "2026-11-21 08:00:00+00");
        check(
            "SELECT count(*) FROM pg_timezone_names z
              WHERE extract(hour FROM sched.next_time('0 9 * * *', '2026-11-20 12:00+00', z.name) AT TIME ZONE z.name) <> 9",
            "0",
        );
        fails("SELECT sched.next_time('@daily', time_zone => E'UTC\\n')", "22023");
    }
}
