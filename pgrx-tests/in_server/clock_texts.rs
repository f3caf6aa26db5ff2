//! Texts of clocks across the border: every good and bad one of the core's lists through all functions that take a clock, what
//! a session may set without changing anything, and arguments that are no clock's fault.
#![allow(clippy::unwrap_used, clippy::expect_used, clippy::panic, reason = "test code")]

use pgrx::prelude::*;

#[pg_schema]
mod tests {
    use pgrx::prelude::*;

    use crate::test_support::{attempt, check, fails, quote, refused, run, sql};

    /// One line: the text, the kind of the fault, a part of the hint.
    const BAD: &str = include_str!("../../core/tests/data/bad_clocks.txt");
    /// One line: the text, the canonical text.
    const GOOD: &str = include_str!("../../core/tests/data/good_clocks.txt");

    #[pg_test]
    fn every_bad_clock_is_refused_with_a_hint() {
        run(&["SELECT sched.define_job('bad clocks')"]);
        let mut count = 0;
        for line in BAD.lines() {
            let [text, _, part] = line.splitn(3, '\t').collect::<Vec<_>>()[..] else { panic!("{line}") };
            let (clock, code) = (quote(text), "22023");
            let created = refused(&format!("SELECT sched.create_schedule('bad clock', {clock}, 'bad clocks')"), code);
            assert!(created.hint.contains(part), "{text}: {}", created.hint);
            for function in ["next_time", "preview"] {
                let asked =
                    attempt(&format!("SELECT sched.{function}({clock}, time_zone => 'Europe/Berlin')")).expect(text);
                assert_eq!((&asked.sqlstate, &asked.hint), (&created.sqlstate, &created.hint), "{text}");
                assert_eq!(asked.message, created.message, "{text}");
            }
            let said =
                sql(&format!("SELECT severity, code, message, hint FROM sched.validate({clock}, 'Europe/Berlin')"));
            assert_eq!(said, format!("error|{code}|{}|{}", created.message, created.hint), "{text}");
            count += 1;
        }
        assert!(count >= 150, "{count}");
    }

    #[pg_test]
    fn every_good_clock_is_accepted() {
        run(&["SELECT sched.define_job('good clocks')"]);
        let mut count = 0;
        for line in GOOD.lines() {
            let (text, canonical) = line.split_once('\t').unwrap();
            let clock = quote(text);
            let arguments = "'Europe/Berlin', '2026-11-20 12:00+00'";
            // preview begins with next_time and rises, and the canonical text says the same.
            check(
                &format!(
                    "WITH p AS (SELECT row_number() OVER () AS n, p.* FROM sched.preview({clock}, {arguments}, n => 4) p)
                     SELECT (SELECT plan_time FROM p WHERE n = 1)
                                IS NOT DISTINCT FROM sched.next_time({clock}, '2026-11-20 12:00+00', 'Europe/Berlin'),
                            COALESCE((SELECT bool_and(p.plan_time < q.plan_time) FROM p JOIN p q ON q.n = p.n + 1), true),
                            (SELECT array_agg(p) FROM sched.preview({clock}, {arguments}, n => 4) p)
                                IS NOT DISTINCT FROM (SELECT array_agg(p) FROM sched.preview({}, {arguments}, n => 4) p)",
                    quote(canonical)
                ),
                "t|t|t",
            );
            check(
                &format!("SELECT count(*) FROM sched.validate({clock}, 'Europe/Berlin') WHERE severity <> 'warning'"),
                "0",
            );
            let name = quote(&format!("good {count}"));
            run(&[&format!("SELECT sched.create_schedule({name}, {clock}, 'good clocks', 'Europe/Berlin')")]);
            check(&format!("SELECT clock = {clock} FROM sched.schedules WHERE schedule_name = {name}"), "t");
            count += 1;
        }
        assert!(count >= 100, "{count}");
    }

    /// The DETAIL of the error that a statement ends with.
    fn detail(statement: &str) -> String {
        run(&["CREATE OR REPLACE FUNCTION pg_temp.detail(statement text) RETURNS text LANGUAGE plpgsql AS $$
               DECLARE said text;
               BEGIN
                   EXECUTE statement;
                   RETURN 'no error';
               EXCEPTION WHEN OTHERS THEN
                   GET STACKED DIAGNOSTICS said = PG_EXCEPTION_DETAIL;
                   RETURN said;
               END $$"]);
        sql(&format!("SELECT pg_temp.detail({})", quote(statement)))
    }

    #[pg_test]
    fn the_caret_stands_under_the_fault() {
        for (clock, fault) in [
            ("0 9 * * mno", "mno"),
            ("0 9 * * 日本", "日本"),
            ("0 9 * é 日本", "é"),
            ("5,日/2 9 * * mno", "日/2"),
            ("  0 9 32 * é", "32"),
            ("0 9 1,é,3 * *", "é,3"),
            ("@fortnïghtly", "@f"),
            ("every 5 日本 from 2026-01-01", "5 日本"),
            ("every 5 minutes from 日", "日"),
            ("at 2027-01-01 09:00 Zürich", "2027"),
            ("0 9 * * * Zürich", "Zürich"),
            ("never é", "never"),
        ] {
            // A first line that begins where psql has written `DETAIL:  `, and a second that does not.
            let column = clock.find(fault).map(|at| clock[..at].chars().count()).unwrap();
            let expected = format!("{clock}\n{:>width$}", "^", width = "DETAIL:  ".len() + column + 1);
            assert_eq!(detail(&format!("SELECT sched.next_time({})", quote(clock))), expected, "{clock}");
        }
        // No caret where it could not be right: several lines, tabs, texts that do not fit.
        for clock in ["0 9 * * mno\n", "0\t9 * * mno", &format!("{} * * *", "60,".repeat(100))] {
            assert_eq!(detail(&format!("SELECT sched.next_time({})", quote(clock))), "", "{clock}");
        }
    }

    #[pg_test]
    fn long_and_strange_texts_are_refused_briefly() {
        let strange = [
            "*".repeat(10_000),
            "0 9 * * ".to_owned() + &"é".repeat(5_000),
            "every ".to_owned() + &"9".repeat(10_000) + " days",
            "every ".to_owned() + &"1 day ".repeat(2_000),
            "at ".to_owned() + &"日".repeat(4_000),
            "1,".repeat(1_900) + " * * * *",
            "@".to_owned() + &"z".repeat(3_000),
            "every 5 minutes from ".to_owned() + &" ".repeat(10_000),
            "🕐 * * * *".to_owned(),
            "\u{a0}0 9 * * *".to_owned(),
            "0 9 * * *\n".to_owned(),
            "0 9 * * *\r\n".to_owned(),
            "0\u{2003}9 * * *".to_owned(),
            "\u{202e}* * * * *".to_owned(),
        ];
        for text in &strange {
            let refusal = attempt(&format!("SELECT sched.next_time({})", quote(text))).expect("no error");
            let is_too_long = text.len() > 1_000;
            assert!(
                if is_too_long { refusal.sqlstate == "54000" } else { refusal.sqlstate.starts_with("22") },
                "{refusal:?}"
            );
            assert!(
                !refusal.hint.is_empty() && refusal.hint.len() < 1_000 && refusal.message.len() < 1_000,
                "{refusal:?}"
            );
            let validate = format!("SELECT severity, code FROM sched.validate({})", quote(text));
            if is_too_long {
                refused(&validate, "54000");
            } else {
                check(&validate, &format!("error|{}", refusal.sqlstate));
            }
        }
        // Long but in order: every minute spelled out.
        let minutes = (0..60).map(|n| n.to_string()).collect::<Vec<_>>().join(",");
        check(
            &format!("SELECT sched.next_time('{minutes} * * * *', '2026-11-20 12:00+00', 'UTC')"),
            "2026-11-20 12:01:00+00",
        );
        // A zone's name may be anything, and any length.
        for zone in [
            "Mars/Phobos",
            "",
            "É",
            "Europe",
            "/",
            "../UTC",
            "CEST",
            "DEFAULT",
            " UTC",
            &"x".repeat(10_000),
            "日本/東京",
        ] {
            let refusal = refused(&format!("SELECT sched.next_time('@daily', time_zone => {})", quote(zone)), "22023");
            assert!(refusal.message.contains("time zone") && refusal.hint.contains("pg_timezone_names"), "{refusal:?}");
            check(&format!("SELECT code FROM sched.validate('@daily', {})", quote(zone)), "22023");
        }
    }

    #[pg_test]
    fn nulls_infinities_and_limits() {
        check(
            "SELECT sched.next_time(NULL), sched.next_time('@daily', NULL), sched.next_time(NULL, NULL, NULL, NULL)",
            "||",
        );
        check("SELECT count(*) FROM sched.preview('@daily', after => NULL)", "0");
        // NULL leaves the zone to the setting and the anchor to the epoch.
        check("SHOW sched.time_zone", "UTC");
        run(&["SET LOCAL timezone = 'Asia/Tokyo'"]);
        check("SELECT sched.next_time('@daily', '2026-11-20 12:00+00', NULL)", "2026-11-21 09:00:00+09");
        check(
            "SELECT plan_time FROM sched.preview('@daily', NULL, '2026-11-20 12:00+00', 1)",
            "2026-11-21 09:00:00+09",
        );
        run(&["SET LOCAL timezone = 'UTC'"]);
        check(
            "SELECT sched.next_time('every 7 days', '2026-11-20 12:00+00', 'UTC', NULL)
                  = sched.next_time('every 7 days', '2026-11-20 12:00+00', 'UTC', '1970-01-01 00:00+00')",
            "t",
        );
        for infinity in ["infinity", "-infinity"] {
            fails(&format!("SELECT sched.next_time('never', '{infinity}')"), "22008");
            refused(&format!("SELECT * FROM sched.preview('never', after => '{infinity}')"), "22008");
            refused(&format!("SELECT * FROM sched.preview('never', anchor => '{infinity}')"), "22008");
        }
        for n in ["-1", "10001", "2147483647", "-2147483648"] {
            refused(&format!("SELECT * FROM sched.preview('@daily', n => {n})"), "22023");
        }
        // The zone must be known even where it is not used.
        for clock in ["never", "every 1 hour", "at 2027-01-01 00:00Z"] {
            refused(&format!("SELECT sched.next_time('{clock}', time_zone => 'Mars/Phobos')"), "22023");
        }
        // The ends of time.
        check("SELECT sched.next_time('0 0 * * *', '294276-12-30 12:00+00', 'UTC')", "294276-12-31 00:00:00+00");
        check("SELECT sched.next_time('0 0 * * *', '294276-12-31 00:00+00', 'UTC')", "");
        check("SELECT sched.next_time('0 0 * * *', '4714-11-24 00:00+00 BC', 'UTC')", "4714-11-25 00:00:00+00 BC");
        check("SELECT sched.next_time('every 1 microsecond', '294276-12-31 23:59:59.999999+00', 'UTC')", "");
        check("SELECT sched.next_time('30 2 31 2 *', '2026-11-20 12:00+00', 'America/New_York')", "");
        check("SELECT count(*) FROM sched.preview('* * * * *', 'America/New_York', '294276-12-31 23:57+00', 100)", "2");
    }

    /// What a session may set: none of it may change a plan time.
    #[pg_test]
    fn no_setting_and_no_function_of_the_session_matters() {
        let statement = "
            SELECT string_agg(extract(epoch FROM p.plan_time)::text || COALESCE(p.note, '-') || extract(epoch FROM p.utc_offset)::text, ' ' ORDER BY p.plan_time)
              FROM unnest(ARRAY['30 2 * * *', '0 9 * * mon-fri', '*/30 1 * * *', 'every 1 month 1 day from 2026-01-31 02:30',
                                'every 1 day', 'every 1-2', 'every PT36H', 'every 01:30', 'at 2026-11-01 01:30', 'at 2026-12-01 01:30:00.5', '@weekly']) AS clock,
                   LATERAL sched.preview(clock, 'America/New_York', '2026-03-07 12:00+00', 20) p";
        let warnings = "SELECT string_agg(v::text, ' ') FROM sched.validate('30 2 * * *', 'America/New_York') v";
        let mixed = "SELECT code FROM sched.validate('every 1 month -1 day')";
        let expected = (sql(statement), sql(warnings), sql(mixed));
        assert!(expected.0.contains("skipped by DST") && expected.1.contains("dst_gap") && expected.2 == "22023");
        // Functions and operators that stand before pg_catalog's own.
        run(&[
            "CREATE SCHEMA trap",
            "CREATE FUNCTION trap.clock_timestamp() RETURNS timestamptz LANGUAGE sql AS 'SELECT ''-infinity''::timestamptz'",
            "CREATE FUNCTION trap.now() RETURNS timestamptz LANGUAGE sql AS 'SELECT ''-infinity''::timestamptz'",
            "CREATE FUNCTION trap.timezone(text, timestamptz) RETURNS timestamp LANGUAGE sql AS 'SELECT NULL::timestamp'",
            "CREATE FUNCTION trap.next_time(text) RETURNS timestamptz LANGUAGE sql AS 'SELECT NULL::timestamptz'",
            "CREATE VIEW trap.pg_timezone_names AS SELECT 'UTC'::text AS name",
        ]);
        for setting in [
            "timezone = 'Asia/Kathmandu'",
            "timezone = 'America/New_York'",
            "timezone = 'Pacific/Apia'",
            "datestyle = 'SQL, DMY'",
            "datestyle = 'German, YMD'",
            "datestyle = 'Postgres, MDY'",
            "intervalstyle = 'sql_standard'",
            "intervalstyle = 'iso_8601'",
            "intervalstyle = 'postgres_verbose'",
            "extra_float_digits = -15",
            "timezone_abbreviations = 'India'",
            "lc_messages = 'C'",
            "search_path = trap, pg_catalog",
            "search_path = ''",
        ] {
            run(&[&format!("SET LOCAL {setting}")]);
            assert_eq!((sql(statement), sql(warnings), sql(mixed)), expected, "{setting}");
        }
        run(&["SET LOCAL search_path = trap, pg_catalog"]);
        check("SELECT sched.next_time('every 1 microsecond') > pg_catalog.now()", "t");
    }
}
