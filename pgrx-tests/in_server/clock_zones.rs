//! The server's zones: what `preview` shows against what PostgreSQL shows around the changes of every zone, names as PostgreSQL finds
//! them, and the server's tz database against chrono-tz's.
#![allow(clippy::unwrap_used, clippy::expect_used, clippy::panic, reason = "test code")]

use pgrx::prelude::*;

#[pg_schema]
mod tests {
    use std::collections::BTreeMap;

    use chrono::{DateTime, Offset, TimeZone};
    use chrono_tz::{Tz, IANA_TZDB_VERSION, TZ_VARIANTS};
    use pgrx::prelude::*;
    use scheduler_core::clock::zone::Zone;

    use crate::pg::zone::ServerZone;
    use crate::test_support::{attempt, check, created, dispatch, quote, refused, run, sql, time_passes};

    const DAY: i64 = 86_400;
    /// 1970-01-01, 2000-01-01 and 2038-01-01.
    const EPOCH: i64 = 0;
    const CENTURY: i64 = 946_684_800;
    const END: i64 = 2_145_916_800;

    /// The names that users choose from; `posix/…` are the same files again.
    fn names() -> Vec<String> {
        sql("SELECT name FROM pg_timezone_names WHERE name !~ '^(posix|right)/' ORDER BY name")
            .lines()
            .map(str::to_owned)
            .collect()
    }

    /// The seconds at which this zone may change, by the server's account.
    fn boundaries(zone: &ServerZone, from: i64, to: i64) -> Vec<i64> {
        let mut at = from;
        std::iter::from_fn(|| {
            let next = zone.span_at(at).until.filter(|&next| next < to)?;
            assert!(next > at, "a boundary that is not ahead of {at}");
            at = next;
            Some(next)
        })
        .collect()
    }

    #[pg_test]
    fn preview_shows_what_postgres_shows_around_every_change() {
        let mut changes = 0;
        let abbreviations = sql("SELECT string_agg(abbrev, ' ') FROM pg_timezone_abbrevs");
        for name in names() {
            let zone = ServerZone::find(&name).unwrap();
            // The first, the last and every third of them; and the turns of the years for zones that never change.
            let found = boundaries(&zone, CENTURY, END);
            let mut seconds: Vec<i64> = found.iter().step_by(3).copied().collect();
            seconds.extend(found.last().into_iter().chain([&CENTURY, &(END - DAY)]));
            let array = seconds.iter().map(i64::to_string).collect::<Vec<_>>().join(",");
            // As `SET TimeZone` reads the name; `AT TIME ZONE` takes some (CET) for an abbreviation, which knows no summer.
            let is_abbreviation = abbreviations.split(' ').any(|abbreviation| abbreviation.eq_ignore_ascii_case(&name));
            run(&[&format!("SET LOCAL timezone = {}", quote(&name))]);
            check(
                &format!(
                    "SELECT count(*) > 0, count(*) FILTER (WHERE p.local_time <> p.plan_time::timestamp),
                            count(*) FILTER (WHERE p.local_time <> p.plan_time AT TIME ZONE {zone} AND NOT {is_abbreviation}),
                            count(*) FILTER (WHERE p.utc_offset <> p.local_time - p.plan_time AT TIME ZONE 'UTC')
                       FROM unnest(ARRAY[{array}]) s, to_timestamp(s) t,
                            LATERAL sched.preview('59,0,1,29,30,31 * * * *', {zone}, t - interval '61 minutes', 12) p",
                    zone = quote(&name)
                ),
                "t|0|0|0",
            );
            changes += seconds.len();
        }
        assert!(changes > 5_000, "{changes}");
    }

    /// Abbreviations, which are one offset and no zone, are refused, as by `SET TimeZone`.
    #[pg_test]
    fn names_are_found_as_postgres_finds_them() {
        for name in ["eUROPE/bERLIN", "utc", "EST5EDT", "GMT", "GMT+0", "Etc/GMT+5", "posix/Europe/Berlin", "localtime"]
        {
            let zone = quote(name);
            // A server with time zones of its own lacks these two, which the system's have.
            if ["posix/Europe/Berlin", "localtime"].contains(&name)
                && attempt(&format!("SET LOCAL timezone = {zone}")).is_some()
            {
                assert!(attempt(&format!("SELECT sched.next_time('@daily', time_zone => {zone})")).is_some(), "{name}");
                continue;
            }
            check(
                &format!(
                    "SELECT count(*), count(*) FILTER (WHERE local_time <> plan_time AT TIME ZONE {zone}) FROM sched.preview('17 * * * *', {zone}, '2026-01-01', 9000)"
                ),
                "9000|0",
            );
        }
        for name in [
            "CEST",
            "PDT",
            "IST",
            "Mars/Phobos",
            "Europe",
            "",
            "UTC168",
            "right/UTC",
            "GMT+0,M3.2.0",
            "../Europe/Berlin",
            "Europe/../Europe/Berlin",
            "Europe//Berlin",
            "/usr/share/zoneinfo/UTC",
            "./UTC",
        ] {
            let refusal =
                attempt(&format!("SELECT sched.next_time('@daily', time_zone => {})", quote(name))).expect(name);
            assert_eq!(refusal.sqlstate, "22023", "{name}");
            assert!(attempt(&format!("SET LOCAL timezone = {}", quote(name))).is_some(), "{name}");
        }
    }

    /// Texts that Postgres would read, and keep for ever, as rules of zones.
    const POSIX: [&str; 15] = [
        "GMT+5",
        "+03",
        "3",
        "<+03>-3",
        "UTC+5:30",
        "UTC0",
        "EST5",
        "Berlin1",
        "foo/bar12",
        "Europe/Berlin+1",
        "EST5EDT4",
        "EST5EDT,M3.2.0,M11.1.0",
        "FOO5BAR,J60,J300",
        "Etc/GMT+13",
        ":Europe/Berlin",
    ];

    #[pg_test]
    fn posix_texts_are_no_names() {
        run(&["SELECT sched.define_job('z/job')", "SELECT sched.create_schedule('z/one', '@daily', 'z/job')"]);
        for text in POSIX {
            let zone = quote(text);
            for call in [
                "next_time('@daily', time_zone => $)",
                "preview('@daily', $)",
                "due_plans('z/job', '@daily', time_zone => $)",
                "create_schedule('z/x', '@daily', 'z/job', $)",
                "create_schedules(jsonb_build_array(jsonb_build_object('schedule_name', 'z/x', 'clock', '@daily', 'job_name', 'z/job', 'time_zone', $)))",
                "alter_schedule('z/one', time_zone => $)",
                "import_crontab('@daily x', time_zone => $)",
            ] {
                let refusal = refused(&format!("SELECT sched.{}", call.replace('$', &zone)), "22023");
                assert!(refusal.hint.contains("'Europe/Berlin'"), "{call}: {refusal:?}");
            }
            check(&format!("SELECT severity, code FROM sched.validate('@daily', {zone})"), "error|22023");
            // A crontab's other lines are none the worse for it; and its TZ may begin with a colon, as POSIX has it.
            let lines = format!("sched.import_crontab('CRON_TZ=' || {zone} || E'\n@daily x')");
            let expected = if text.starts_with(':') { "t||" } else { "f||t" };
            check(
                &format!("SELECT min(schedule_name) IS NOT NULL, NULL, min(note) ~ 'pg_timezone_names' FROM {lines}"),
                expected,
            );
        }
        for zone in [
            "UTC",
            "GMT+0",
            "GMT0",
            "EST5EDT",
            "pst8pdt",
            "Etc/GMT+5",
            "etc/gmt-14",
            "NZ-CHAT",
            "W-SU",
            "GB-Eire",
            "Asia/Kolkata",
        ] {
            check(&format!("SELECT count(*) FROM sched.validate('0 12 * * *', '{zone}')"), "0");
        }
    }

    /// Postgres keeps each text that it could read as a zone for the life of the process, 24 kB each, by its capitals.
    #[pg_test]
    fn texts_without_end_cost_a_session_nothing() {
        const KEPT: &str =
            "SELECT COALESCE(sum(total_bytes), 0) FROM pg_backend_memory_contexts WHERE name = 'Timezones'";
        run(&[
            "SELECT sched.define_job('z/job')",
            "SELECT sched.create_schedule('z/one', '@daily', 'z/job')",
            "CREATE FUNCTION pg_temp.tries(call text, texts text[]) RETURNS integer LANGUAGE plpgsql AS $$
             DECLARE one text; taken integer := 0;
             BEGIN
                 FOREACH one IN ARRAY texts LOOP
                     BEGIN
                         EXECUTE replace(call, '%', quote_literal(one));
                         taken := taken + 1;
                     EXCEPTION WHEN invalid_parameter_value THEN
                     END;
                 END LOOP;
                 RETURN taken;
             END $$",
            "SELECT sched.next_time('@daily', time_zone => 'Europe/Berlin')",
        ]);
        let before: i64 = sql(KEPT).parse().unwrap();
        let tries = |call: &str, count: i32, text: &str| {
            let texts = format!("ARRAY(SELECT {text} FROM generate_series(1, {count}) i)");
            sql(&format!("SELECT pg_temp.tries({}, {texts})", quote(call)))
        };
        for (call, count, letter) in [
            ("SELECT sched.next_time('@daily', time_zone => %)", 2000, "X"),
            ("SELECT sched.alter_schedule('z/one', time_zone => %)", 200, "Y"),
        ] {
            for text in [
                "'?' || translate(i::text, '0123456789', 'abcdefghij') || i % 24",
                "'<?' || i || '>5'",
                "'right/Etc/GMT-' || i",
                "'Nowhere/' || translate(i::text, '0123456789', 'abcdefghij')",
            ] {
                assert_eq!(tries(call, count, &text.replace('?', letter)), "0", "{call} {text}");
            }
            // One zone, whatever the capitals.
            let capitals = "(SELECT string_agg(CASE WHEN (i >> (p::integer - 1)) & 1 = 0 THEN lower(c) ELSE upper(c) END, '' ORDER BY p)
                               FROM unnest(string_to_array('europe/berlin', NULL)) WITH ORDINALITY AS u (c, p))";
            assert_eq!(tries(call, count, capitals), count.to_string());
        }
        // The view's own function takes what stands in its rows, also from who has no such row; it refuses nothing.
        let parts = |zone: &str, count: i32| {
            let run = "'2026-01-01', NULL, NULL, NULL, '2026-01-02', '2026-01-09', 8, '{2026-01-05}', NULL";
            sql(&format!(
                "SELECT sum(count) FROM generate_series(1, {count}) i, sched_internal.skip_parts('@daily', {zone}, {run})"
            ))
        };
        assert_eq!(parts("'<z>0'", 1), "7");
        assert_eq!(parts("'<z>0'", 10), "70");
        parts("'<p' || translate(i::text, '0123456789', 'abcdefghij') || '>5'", 2000);
        // What there was before goes on.
        assert_eq!(parts("'<z>0'", 10), "70");
        let kept = sql(KEPT).parse::<i64>().unwrap() - before;
        // (The server makes room for 32 at once.)
        assert!(kept < 1_500_000, "{kept} bytes");
    }

    /// What was written before names were asked for goes on, and whatever else is edited stays as it is.
    #[pg_test]
    fn a_schedule_whose_zone_is_a_posix_text_keeps_it() {
        created("z/kept", "0 * * * *", "");
        run(&["UPDATE sched.schedule SET time_zone = '<+0530>-5:30' WHERE schedule_name = 'z/kept'"]);
        dispatch(0);
        let minute = "SELECT state, extract(minute FROM next_plan_time AT TIME ZONE 'UTC') FROM sched.schedules WHERE schedule_name = 'z/kept'";
        check(minute, "armed|30");
        run(&[
            "SELECT sched.alter_schedule('z/kept', payload => '{\"n\": 1}')",
            "SELECT sched.alter_schedule('z/kept', time_zone => '<+0530>-5:30', clock => '0 */2 * * *')",
            "SELECT sched.pause('z/kept')",
            "SELECT sched.resume('z/kept')",
        ]);
        dispatch(0);
        check(minute, "armed|30");
        run(&["SELECT * FROM sched.explain('z/kept', clock_timestamp() - interval '1 day', clock_timestamp())"]);
        time_passes("121 minutes");
        dispatch(1);
        check("SELECT sched.backfill('z/kept', '2026-01-01 00:00+00', '2026-01-01 04:00+00')", "2");
        refused("SELECT sched.alter_schedule('z/kept', time_zone => '<+0530>-5:29')", "22023");
    }

    /// Names that the tz database itself treats in two ways: zones with rules of their own, or, since its release 2024b,
    /// links to a city. Distributions choose, so servers differ.
    const OWN_OR_LINK: [&str; 11] =
        ["CET", "CST6CDT", "EET", "EST", "EST5EDT", "HST", "MET", "MST", "MST7MDT", "PST8PDT", "WET"];

    /// Zones whose past is settled: a difference there is a fault of ours.
    const SETTLED: [&str; 30] = [
        "Africa/Cairo",
        "Africa/Johannesburg",
        "Africa/Lagos",
        "America/Argentina/Buenos_Aires",
        "America/Chicago",
        "America/Denver",
        "America/Halifax",
        "America/Los_Angeles",
        "America/New_York",
        "America/Phoenix",
        "America/Sao_Paulo",
        "America/St_Johns",
        "Asia/Dubai",
        "Asia/Hong_Kong",
        "Asia/Kathmandu",
        "Asia/Kolkata",
        "Asia/Shanghai",
        "Asia/Singapore",
        "Asia/Tokyo",
        "Australia/Lord_Howe",
        "Australia/Sydney",
        "Etc/UTC",
        "Europe/Berlin",
        "Europe/Dublin",
        "Europe/London",
        "Europe/Moscow",
        "Europe/Paris",
        "Pacific/Apia",
        "Pacific/Auckland",
        "Pacific/Chatham",
    ];

    fn chrono_offset(tz: Tz, second: i64) -> i32 {
        let utc = DateTime::from_timestamp(second, 0).unwrap().naive_utc();
        tz.offset_from_utc_datetime(&utc).fix().local_minus_utc()
    }

    /// The first second since 1970 at which the two disagree: every stretch of the server's is asked at both ends and
    /// every three days in between.
    fn first_difference(tz: Tz, zone: &ServerZone) -> Option<(i64, String)> {
        let mut at = EPOCH;
        while at < END {
            let span = zone.span_at(at);
            let until = span.until.unwrap_or(END).min(END);
            let found = (at..until)
                .step_by(3 * DAY as usize)
                .chain([until - 1])
                .find(|&s| chrono_offset(tz, s) != span.utc_offset_seconds);
            if let Some(second) = found {
                let shown = DateTime::from_timestamp(second, 0).unwrap();
                let offsets = (span.utc_offset_seconds, chrono_offset(tz, second));
                return Some((
                    second,
                    format!("{} at {shown}: the server {}, chrono-tz {}", tz.name(), offsets.0, offsets.1),
                ));
            }
            at = until;
        }
        None
    }

    /// docs/reference/clocks.md explains the differences that are allowed. The server's release of the tz database is not known here and
    /// may be older or newer than chrono-tz's, so what is settled must agree, and the rest may differ in few zones.
    #[pg_test]
    fn the_servers_zones_are_those_of_chrono_tz() {
        let mut compared = 0;
        let mut differences = BTreeMap::new();
        for tz in TZ_VARIANTS {
            // A server may lack old names (Debian keeps them in a package of their own since 13).
            let Ok(zone) = ServerZone::find(tz.name()) else {
                assert!(!SETTLED.contains(&tz.name()), "{tz} is unknown");
                continue;
            };
            compared += 1;
            if let Some((second, text)) = first_difference(tz, &zone) {
                if !OWN_OR_LINK.contains(&tz.name()) {
                    differences.insert(tz.name(), (second, text));
                }
            }
        }
        assert!(compared > 400, "{compared}");
        let texts = differences.values().map(|(_, text)| text.as_str()).collect::<Vec<_>>().join("\n");
        // Governments change the future, and each release of the tz database corrects a handful of zones.
        let year = IANA_TZDB_VERSION[..4].parse::<i64>().unwrap();
        let past = (year - 1 - 1970) * 31_556_952;
        for name in SETTLED {
            assert!(differences.get(name).is_none_or(|&(second, _)| second > past), "{name}:\n{texts}");
        }
        assert!(differences.len() <= 30, "{} zones differ from {IANA_TZDB_VERSION}:\n{texts}", differences.len());
        if !texts.is_empty() {
            log!("zones that differ from tz database {IANA_TZDB_VERSION}:\n{texts}");
        }
    }
}
