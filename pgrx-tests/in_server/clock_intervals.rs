//! The intervals of `every` clocks against PostgreSQL's own input of `interval`: the list of the core, and random texts.
#![allow(clippy::unwrap_used, clippy::expect_used, clippy::panic, reason = "test code")]

use pgrx::prelude::*;

#[pg_schema]
mod tests {
    use pgrx::prelude::*;
    use scheduler_core::clock::Clock;

    use crate::test_support::random::Random;
    use crate::test_support::{quote, run, sql};

    /// One line: an interval, and its months, days and microseconds.
    const INTERVALS: &str = include_str!("../../core/tests/data/intervals.txt");

    /// What the accepted texts of intervals mean, and what random ones do.
    #[pg_test]
    fn intervals_against_the_input_of_interval() {
        for style in ["postgres", "iso_8601", "sql_standard"] {
            run(&[&format!("SET LOCAL intervalstyle = {style}")]);
            for line in INTERVALS.lines() {
                let (text, expected) = line.split_once('\t').unwrap();
                let fields = "extract(year FROM i) * 12 + extract(month FROM i), extract(day FROM i), (extract(hour FROM i) * 3600 + extract(minute FROM i) * 60) * 1000000 + extract(microseconds FROM i)";
                let said = sql(&format!("SELECT {fields} FROM CAST({} AS interval) i", quote(text))).replace('|', " ");
                let said = said.replace(".000000", "");
                assert_eq!(said, expected, "{text}");
            }
        }
    }

    const NUMBERS: [&str; 24] = [
        "0",
        "1",
        "2",
        "3",
        "7",
        "12",
        "15",
        "24",
        "30",
        "31",
        "45",
        "60",
        "90",
        "365",
        "1000",
        "1.5",
        "0.1",
        ".25",
        "2.999",
        "1.9999999",
        "0.0000005",
        "-1",
        "+2",
        "-0.5",
    ];
    const UNITS: [&str; 44] = [
        "us",
        "usec",
        "microsecond",
        "microseconds",
        "ms",
        "msec",
        "milliseconds",
        "s",
        "sec",
        "secs",
        "second",
        "seconds",
        "m",
        "min",
        "mins",
        "minute",
        "minutes",
        "h",
        "hr",
        "hrs",
        "hour",
        "hours",
        "d",
        "day",
        "days",
        "w",
        "week",
        "weeks",
        "mon",
        "mons",
        "month",
        "months",
        "y",
        "yr",
        "yrs",
        "year",
        "years",
        "decade",
        "decades",
        "c",
        "century",
        "mil",
        "millennium",
        "ago",
    ];
    const OTHERS: [&str; 22] = [
        "1:30",
        "01:02:03",
        "12:34:56.789",
        "0:0:0.5",
        "100:00",
        "-2:03",
        "+4:05:06",
        "1-2",
        "-1-2",
        "0-11",
        "P1D",
        "PT1H30M",
        "P1Y2M3DT4H5M6.7S",
        "P2W",
        "P0.5Y",
        "PT0.000001S",
        "P0001-02-03T04:05:06",
        "P1.5M",
        "P-1D",
        "PT36H",
        "P1Y1W",
        "PT1M1",
    ];

    /// A text that may be an interval: pairs of a number and a unit, and now and then something else.
    fn interval_text(random: &mut Random) -> String {
        if random.below(8) == 0 {
            return (*random.pick(&OTHERS)).to_owned();
        }
        let mut text = String::new();
        for _ in 0..=random.below(4) {
            if !text.is_empty() && random.below(8) > 0 {
                text.push(' ');
            }
            match random.below(14) {
                0 => text += random.pick(&OTHERS),
                1 => text += random.pick(&UNITS),
                2 => text += random.pick(&NUMBERS),
                kind => {
                    text += random.pick(&NUMBERS);
                    text += if kind % 3 == 0 { "" } else { " " };
                    text += random.pick(&UNITS);
                }
            }
        }
        text
    }

    /// Random texts are accepted where PostgreSQL 15 accepts them, with the same value, but for what the contract refuses: a number
    /// without a unit, signs that differ, zero and negative.
    #[pg_test]
    fn random_intervals_against_the_input_of_interval() {
        // Later versions are stricter about texts than 15, whose reading is the contract's.
        if sql("SELECT current_setting('server_version_num')::integer >= 160000") == "t" {
            return;
        }
        run(&[
            "SET LOCAL intervalstyle = postgres",
            "CREATE FUNCTION pg_temp.read(t text) RETURNS text LANGUAGE plpgsql AS $$
             DECLARE i interval;
             BEGIN
                 i := t::interval;
                 RETURN concat_ws(' ', extract(year FROM i)::bigint * 12 + extract(month FROM i)::bigint, extract(day FROM i),
                                  (extract(hour FROM i) * 3600000000 + extract(minute FROM i) * 60000000 + extract(microseconds FROM i))::bigint);
             EXCEPTION WHEN data_exception THEN
                 RETURN SQLSTATE;
             END $$",
        ]);
        let mut random = Random(0x1A7E_55A1);
        let texts: Vec<String> = (0..6_000).map(|_| interval_text(&mut random)).collect();
        let array = texts.iter().map(|text| quote(text)).collect::<Vec<_>>().join(",");
        let said =
            sql(&format!("SELECT pg_temp.read(t) FROM unnest(ARRAY[{array}]) WITH ORDINALITY u (t, n) ORDER BY n"));
        let (mut accepted, mut wrong) = (0, Vec::new());
        for (text, theirs) in texts.iter().zip(said.lines()) {
            let ours = match Clock::parse(&format!("every {text}")) {
                Ok(Clock::Every(every)) => {
                    let interval = every.interval;
                    format!("{} {} {}", interval.months, interval.days, interval.micros)
                }
                Ok(other) => panic!("{text} is {other}"),
                Err(error) => format!("{} {}", error.kind().postgres_sqlstate(), error.reason()),
            };
            let signs: Vec<i64> = theirs.split(' ').map(|part| part.parse::<i64>().unwrap().signum()).collect();
            let is_value = signs.len() == 3;
            let positive = is_value && signs.contains(&1) && !signs.contains(&-1);
            let right = match ours.as_str() {
                "22007 a number has no unit" => true,
                refused if refused.starts_with("22023 the interval") => is_value && !positive,
                refused if refused.starts_with("22") => !is_value && refused.starts_with(theirs),
                value => positive && value == theirs,
            };
            accepted += u32::from(!ours.starts_with("22"));
            if !right {
                wrong.push(format!("{text}: PostgreSQL says {theirs}, the clock {ours}"));
            }
        }
        assert!(wrong.is_empty(), "{} of {}:\n{}", wrong.len(), texts.len(), wrong[..wrong.len().min(20)].join("\n"));
        assert!(accepted > 1_000, "{accepted}");
    }
}
