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
    use crate::test_support::{attempt, check, quote, run, sql};

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

    /// POSIX texts mean what they mean to `AT TIME ZONE`, with their signs and rules. Abbreviations, which are one offset and
    /// no zone, are refused, as by `SET TimeZone`.
    #[pg_test]
    fn names_are_found_as_postgres_finds_them() {
        for name in [
            "eUROPE/bERLIN",
            "utc",
            "EST5EDT",
            "GMT",
            "Etc/GMT+5",
            "GMT+5",
            "GMT-3",
            "+03",
            "-03",
            "<+03>-3",
            "UTC+5:30",
            "EST5EDT4",
            "EST5EDT,M3.2.0,M11.1.0",
            "FOO5BAR,J60,J300",
            "<-03>3<-02>,M3.5.0/-2,M10.5.0/-1",
            "UTC25",
            "posix/Europe/Berlin",
            "localtime",
        ] {
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
        for name in ["CEST", "PDT", "IST", "Mars/Phobos", "Europe", "", "UTC168", "right/UTC", "GMT+0,M3.2.0"] {
            let refusal =
                attempt(&format!("SELECT sched.next_time('@daily', time_zone => {})", quote(name))).expect(name);
            assert_eq!(refusal.sqlstate, "22023", "{name}");
            assert!(attempt(&format!("SET LOCAL timezone = {}", quote(name))).is_some(), "{name}");
        }
    }

    #[pg_test]
    fn validate_warns_of_offsets_that_count_westwards() {
        for (zone, side) in [
            ("+02", "2:00 behind"),
            ("GMT-5", "5:00 ahead of"),
            ("UTC+5:30", "5:30 behind"),
            ("3", "3:00 behind"),
            ("GMT+5", "5:00 behind"),
            ("UTC3", "3:00 behind"),
            ("GMT3", "3:00 behind"),
            ("EST5", "5:00 behind"),
            ("Berlin1", "1:00 behind"),
            ("foo/bar12", "12:00 behind"),
            ("Europe/Berlin+1", "1:00 behind"),
            ("<+03>-3", "3:00 ahead of"),
            ("EST5EDT,M3.2.0,M11.1.0", "5:00 behind"),
        ] {
            let said = sql(&format!("SELECT severity, code, message FROM sched.validate('@daily', '{zone}')"));
            assert!(
                said.starts_with("warning|posix_offset|") && said.ends_with(&format!("its clock is {side} UTC")),
                "{said}"
            );
        }
        for zone in [
            "UTC",
            "GMT+0",
            "GMT0",
            "EST5EDT",
            "pst8pdt",
            "UTC0",
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
