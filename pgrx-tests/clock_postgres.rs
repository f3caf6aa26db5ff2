//! Clocks against PostgreSQL's own arithmetic, with a fixed seed: `AT TIME ZONE`, `timestamptz + interval`, `text::interval`.
//!
//! Nothing of the core is used to say what is right. Where a wall-clock reading exists once, PostgreSQL's answer is the right one;
//! where it exists twice or not at all, PostgreSQL chooses otherwise than CLOCKS.md rule 8, which is spelled out in SQL here.

use pgrx::prelude::*;

#[pg_schema]
mod tests {
    use pgrx::prelude::*;
    use scheduler_core::clock::Clock;

    use crate::test_support::{check, quote, run, sql};

    const INTERVALS: &str = include_str!("../core/tests/data/intervals.txt");

    /// Zones with something to them: halves and quarters of hours, gaps at midnight, a lost day, negative DST, no DST.
    const ZONES: [&str; 20] = [
        "America/New_York", "Europe/Berlin", "Europe/Dublin", "Australia/Lord_Howe", "Pacific/Apia", "Antarctica/Troll", "Africa/Casablanca",
        "Asia/Beirut", "Pacific/Chatham", "America/Santiago", "America/Nuuk", "America/Sao_Paulo", "Asia/Kathmandu", "Asia/Tehran",
        "America/St_Johns", "Asia/Gaza", "Pacific/Kwajalein", "America/Havana", "Asia/Amman", "UTC",
    ];

    /// xorshift64*, so that a failure comes again.
    struct Random(u64);

    impl Random {
        fn below(&mut self, n: u64) -> u64 {
            self.0 ^= self.0 >> 12;
            self.0 ^= self.0 << 25;
            self.0 ^= self.0 >> 27;
            (self.0.wrapping_mul(0x2545_F491_4F6C_DD1D) >> 16) % n
        }

        fn pick<'a, T: ?Sized>(&mut self, items: &[&'a T]) -> &'a T {
            items[self.below(items.len() as u64) as usize]
        }

        /// A few different numbers of a range, rising.
        fn some(&mut self, most: u64, from: u64, to: u64) -> Vec<u64> {
            let mut out: Vec<u64> = (0..=self.below(most)).map(|_| from + self.below(to - from + 1)).collect();
            out.sort_unstable();
            out.dedup();
            out
        }

        /// An instant from 1990 to 2037, half of the time within two days of a change of the zone (as PostgreSQL tells it).
        fn instant(&mut self, zone: &str) -> String {
            let second = 631_152_000 + self.below(48 * 31_556_952);
            if self.below(2) == 0 {
                return sql(&format!("SELECT to_timestamp({second})"));
            }
            let back = self.below(2 * 86_400);
            sql(&format!(
                "SELECT COALESCE((SELECT max(h) FROM (SELECT h, h AT TIME ZONE {zone} - h AT TIME ZONE 'UTC' AS o,
                                           lag(h AT TIME ZONE {zone} - h AT TIME ZONE 'UTC') OVER (ORDER BY h) AS before
                                      FROM generate_series(to_timestamp({second}), to_timestamp({second}) + interval '1 year', '12 hours') h) c
                          WHERE o <> before), to_timestamp({second})) - {back} * interval '1 second'",
                zone = quote(zone)
            ))
        }
    }

    fn list(numbers: &[u64]) -> String {
        numbers.iter().map(u64::to_string).collect::<Vec<_>>().join(",")
    }

    /// `readings`: every instant at which the zone's clock shows l. `rule8`: the one that CLOCKS.md chooses.
    fn define_rules() {
        run(&[
            "SET LOCAL timezone = 'UTC'",
            "CREATE FUNCTION pg_temp.readings(l timestamp, z text) RETURNS timestamptz[] LANGUAGE sql STABLE AS $$
                 SELECT array_agg(DISTINCT t ORDER BY t)
                   FROM (SELECT (l - ((u + d) AT TIME ZONE z - (u + d) AT TIME ZONE 'UTC')) AT TIME ZONE 'UTC'
                           FROM (SELECT l AT TIME ZONE 'UTC') o (u), generate_series(-48, 48, 3) h, make_interval(hours => h) d) c (t)
                  WHERE t AT TIME ZONE z = l $$",
            // A gap: the first minute whose reading is later. (No change since 1972 was within a minute.)
            "CREATE FUNCTION pg_temp.rule8(l timestamp, z text) RETURNS timestamptz LANGUAGE plpgsql STABLE AS $$
             DECLARE r timestamptz[] := pg_temp.readings(l, z);
             BEGIN
                 IF cardinality(r) = 1 THEN
                     IF r[1] <> l AT TIME ZONE z THEN RAISE 'PostgreSQL disagrees with itself about % in %', l, z; END IF;
                     RETURN r[1];
                 ELSIF cardinality(r) > 1 THEN
                     RETURN r[1];
                 END IF;
                 RETURN (SELECT min(m) FROM generate_series(date_trunc('minute', l) AT TIME ZONE 'UTC' - interval '40 hours', l AT TIME ZONE 'UTC' + interval '40 hours', '1 minute') m
                          WHERE m AT TIME ZONE z > l);
             END $$",
        ]);
    }

    #[pg_test]
    fn rule_8_in_sql_is_the_rule_of_the_page() {
        define_rules();
        check(
            "SELECT pg_temp.rule8('2026-03-08 02:30', 'America/New_York'), pg_temp.rule8('2026-11-01 01:30', 'America/New_York'),
                    pg_temp.rule8('2011-12-30 09:00', 'Pacific/Apia'), pg_temp.rule8('2026-03-29 00:00', 'Asia/Beirut')",
            "2026-03-08 07:00:00+00|2026-11-01 05:30:00+00|2011-12-30 10:00:00+00|2026-03-28 22:00:00+00",
        );
    }

    /// Fixed and wild cron clocks over fifty days from a random instant: all plan times, against all matching readings.
    #[pg_test]
    fn cron_clocks_against_at_time_zone() {
        define_rules();
        let mut random = Random(0x5EED_C10C);
        let (mut plans, mut moved) = (0, 0);
        for _ in 0..500 {
            let zone = random.pick(&ZONES);
            let after = random.instant(zone);
            let wild = random.below(4) == 0;
            let hours = if random.below(2) == 0 { random.some(3, 0, 4) } else { random.some(3, 0, 23) };
            let minutes = if wild { vec![0, 20, 40] } else { random.some(3, 0, 59) };
            let (month_star, week_star) = (random.below(3) > 0, random.below(3) > 0);
            let days = if month_star { (1..=31).collect() } else { random.some(6, 1, 31) };
            let weekdays = if week_star { (0..=6).collect() } else { random.some(3, 0, 6) };
            let clock = format!(
                "{} {} {} * {}",
                if wild { "*/20".to_owned() } else { list(&minutes) },
                list(&hours),
                if month_star { "*".to_owned() } else { list(&days) },
                if week_star { "*".to_owned() } else { list(&weekdays) },
            );
            let operator = if month_star || week_star { "AND" } else { "OR" };
            let matches = |l: &str| {
                format!(
                    "extract(hour FROM {l}) IN ({}) AND extract(minute FROM {l}) IN ({})
                     AND (extract(day FROM {l}) IN ({}) {operator} extract(dow FROM {l}) IN ({}))",
                    list(&hours),
                    list(&minutes),
                    list(&days),
                    list(&weekdays)
                )
            };
            let z = quote(zone);
            let expected = if wild {
                format!(
                    "SELECT m FROM (SELECT m, m AT TIME ZONE {z} AS l FROM generate_series(date_trunc('minute', a), a + interval '50 days', '10 minutes') m) x WHERE {}",
                    matches("l")
                )
            } else {
                // Readings from three days before: one of them may lie in a gap as long as a day.
                format!(
                    "SELECT DISTINCT pg_temp.rule8(l, {z}) AS m
                       FROM generate_series(date_trunc('day', a AT TIME ZONE {z}) - interval '3 days', a AT TIME ZONE {z} + interval '52 days', '1 day') d,
                            unnest(ARRAY[{}]) h, unnest(ARRAY[{}]) i, LATERAL (SELECT d + make_interval(hours => h, mins => i)) x (l) WHERE {}",
                    list(&hours),
                    list(&minutes),
                    matches("l")
                )
            };
            // Wild clocks are compared on a grid of ten minutes, which every change of these zones is on.
            let after = if wild { sql(&format!("SELECT date_trunc('hour', '{after}'::timestamptz)")) } else { after };
            let answer = sql(&format!(
                "WITH o AS MATERIALIZED (SELECT '{after}'::timestamptz AS a),
                      e AS (SELECT e.m FROM o, LATERAL ({expected}) e WHERE m > a AND m <= a + interval '50 days'),
                      p AS (SELECT p.* FROM o, sched.preview({}, {z}, a, 10000) p WHERE plan_time <= a + interval '50 days')
                 SELECT (SELECT array_agg(m ORDER BY m) FROM e) IS NOT DISTINCT FROM (SELECT array_agg(plan_time ORDER BY plan_time) FROM p),
                        (SELECT count(*) FROM p WHERE local_time <> plan_time AT TIME ZONE {z}), (SELECT count(*) FROM p),
                        (SELECT count(*) FROM p WHERE note IS NOT NULL),
                        (SELECT count(*) FROM p WHERE note LIKE '%comes twice%' AND cardinality(pg_temp.readings(local_time, {z})) < 2)",
                quote(&clock)
            ));
            let numbers: Vec<&str> = answer.split('|').collect();
            assert!(numbers[0] == "t" && numbers[1] == "0" && numbers[4] == "0", "{clock} in {zone} after {after}: {answer}");
            assert!(!wild || numbers[3] == "0", "a wild clock has a note: {clock} in {zone} after {after}");
            plans += numbers[2].parse::<u32>().unwrap();
            moved += numbers[3].parse::<u32>().unwrap();
        }
        assert!(plans > 5_000 && moved > 100, "{plans} {moved}");
    }

    /// `every` with months and days: the n-th time against `timestamp + interval`, and against `timestamptz + interval` in a
    /// session of that zone where the readings on the way exist once.
    #[pg_test]
    fn grids_of_months_and_days_against_interval_arithmetic() {
        define_rules();
        let mut random = Random(0xCA1E_4DA4);
        let (mut times, mut same) = (0, 0);
        for _ in 0..300 {
            let zone = random.pick(&ZONES);
            let anchor = random.instant(zone);
            let mut months = if random.below(2) == 0 { random.below(15) } else { 0 };
            let days = if random.below(2) == 0 { random.below(40) } else { 0 };
            let seconds = if random.below(3) == 0 { random.below(200_000) } else { 0 };
            if months == 0 && days == 0 {
                months = 1;
            }
            let z = quote(zone);
            let answer = sql(&format!(
                "WITH o AS MATERIALIZED (SELECT '{anchor}'::timestamptz AS a, '{anchor}'::timestamptz AT TIME ZONE {z} AS l),
                      r AS MATERIALIZED (SELECT n, a, l + make_interval(months => {months} * n) AS middle, l + make_interval(months => {months} * n, days => {days} * n) AS reading
                                           FROM o, generate_series(0, 24) n),
                      e AS MATERIALIZED (SELECT n, middle, reading, CASE WHEN n = 0 THEN a ELSE pg_temp.rule8(reading, {z}) END + n * interval '{seconds} seconds' AS t FROM r),
                      p AS MATERIALIZED (SELECT p.plan_time FROM o, sched.preview('every {months} months {days} days {seconds} seconds', {z}, a - interval '1 second', 30, a) p)
                 SELECT (SELECT count(*) FROM e WHERE NOT EXISTS (SELECT FROM p WHERE plan_time = t)),
                        (SELECT count(*) FROM p WHERE plan_time <= (SELECT max(t) FROM e) AND NOT EXISTS (SELECT FROM e WHERE t = plan_time)),
                        (SELECT string_agg(n::text, ',') FROM e WHERE n > 0 AND cardinality(pg_temp.readings(middle, {z})) = 1 AND cardinality(pg_temp.readings(reading, {z})) = 1)"
            ));
            let parts: Vec<&str> = answer.split('|').collect();
            let what = format!("every {months} months {days} days {seconds} seconds from {anchor} in {zone}");
            assert!(parts[0] == "0" && parts[1] == "0", "{what}: {answer}");
            times += 25;
            if parts[2].is_empty() {
                continue;
            }
            run(&[&format!("SET LOCAL timezone = {z}")]);
            let wrong = sql(&format!(
                "SELECT string_agg(n::text, ',') FROM unnest(ARRAY[{}]) n
                  WHERE sched.next_time('every {months} months {days} days {seconds} seconds', '{anchor}'::timestamptz + make_interval(months => {months} * n, days => {days} * n, secs => {seconds}::float8 * n) - interval '1 microsecond', {z}, '{anchor}')
                        <> '{anchor}'::timestamptz + make_interval(months => {months} * n, days => {days} * n, secs => {seconds}::float8 * n)",
                parts[2]
            ));
            run(&["SET LOCAL timezone = 'UTC'"]);
            assert_eq!(wrong, "", "{what}");
            same += parts[2].split(',').count();
        }
        assert!(times > 5_000 && same > 5_000, "{times} {same}");
    }

    /// Elapsed time: exact microseconds, in any zone, however far.
    #[pg_test]
    fn grids_of_elapsed_time_against_exact_numbers() {
        run(&[
            "CREATE FUNCTION pg_temp.micros(t timestamptz) RETURNS numeric LANGUAGE sql AS $$
                 SELECT (extract(epoch FROM t) - 946684800) * 1000000 $$",
            // In two steps, for `interval * n` is floating point.
            "CREATE FUNCTION pg_temp.instant(micros bigint) RETURNS timestamptz LANGUAGE sql AS $$
                 SELECT '2000-01-01 00:00+00'::timestamptz + make_interval(days => (micros / 86400000000)::integer)
                        + (micros % 86400000000) * interval '1 microsecond' $$",
            "SET LOCAL timezone = 'UTC'",
        ]);
        let mut random = Random(0xE1A5_0FED);
        let mut rows = Vec::new();
        for _ in 0..3_000 {
            let most = [1_000, 1_000_000, 100_000_000_000, 90_000_000_000_000_000][random.below(4) as usize];
            let step = 1 + random.below(most);
            let anchor = random.below(8_000_000_000_000_000) as i64 - 4_000_000_000_000_000;
            let most = [1_000_000, 4_000_000_000_000_000, 900_000_000_000_000_000][random.below(3) as usize];
            let passed = random.below(most);
            rows.push(format!("({step}, {anchor}, {passed}, {})", quote(random.pick(&ZONES))));
        }
        check(
            &format!(
                "SELECT count(*), count(*) FILTER (WHERE micros(next) IS DISTINCT FROM anchor + (passed / step + 1) * step),
                        count(*) FILTER (WHERE micros(exact) IS DISTINCT FROM anchor + (passed / step + 1) * step)
                   FROM (VALUES {}) v (step, anchor, passed, zone),
                        LATERAL (SELECT sched.next_time('every ' || step || ' microseconds', instant(anchor + passed), zone, instant(anchor)),
                                        sched.next_time('every ' || step || ' microseconds', instant(anchor + (passed / step + 1) * step - 1), zone, instant(anchor))) n (next, exact)",
                rows.join(", ")
            )
            .replace("micros(", "pg_temp.micros(")
            .replace("instant(", "pg_temp.instant("),
            "3000|0|0",
        );
    }

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
        "0", "1", "2", "3", "7", "12", "15", "24", "30", "31", "45", "60", "90", "365", "1000", "1.5", "0.1", ".25", "2.999", "1.9999999", "0.0000005", "-1", "+2", "-0.5",
    ];
    const UNITS: [&str; 44] = [
        "us", "usec", "microsecond", "microseconds", "ms", "msec", "milliseconds", "s", "sec", "secs", "second", "seconds", "m", "min", "mins", "minute", "minutes", "h", "hr",
        "hrs", "hour", "hours", "d", "day", "days", "w", "week", "weeks", "mon", "mons", "month", "months", "y", "yr", "yrs", "year", "years", "decade", "decades", "c", "century",
        "mil", "millennium", "ago",
    ];
    const OTHERS: [&str; 22] = [
        "1:30", "01:02:03", "12:34:56.789", "0:0:0.5", "100:00", "-2:03", "+4:05:06", "1-2", "-1-2", "0-11", "P1D", "PT1H30M", "P1Y2M3DT4H5M6.7S", "P2W", "P0.5Y", "PT0.000001S",
        "P0001-02-03T04:05:06", "P1.5M", "P-1D", "PT36H", "P1Y1W", "PT1M1",
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
        let said = sql(&format!("SELECT pg_temp.read(t) FROM unnest(ARRAY[{array}]) WITH ORDINALITY u (t, n) ORDER BY n"));
        let (mut accepted, mut wrong) = (0, Vec::new());
        for (text, theirs) in texts.iter().zip(said.lines()) {
            let ours = match Clock::parse(&format!("every {text}")) {
                Ok(Clock::Every(every)) => {
                    let interval = every.interval;
                    format!("{} {} {}", interval.months, interval.days, interval.micros)
                }
                Ok(other) => panic!("{text} is {other}"),
                Err(error) => format!("{} {}", error.kind().sqlstate(), error.reason()),
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
