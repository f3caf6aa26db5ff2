//! Clocks against PostgreSQL's own arithmetic, with a fixed seed: `AT TIME ZONE`, `timestamptz + interval`.
//!
//! Nothing of the core is used to say what is right. Where a wall-clock reading exists once, PostgreSQL's answer is the right one;
//! where it exists twice or not at all, PostgreSQL chooses otherwise than docs/reference/clocks.md, rule 8, which is spelled out in SQL here.
#![allow(clippy::unwrap_used, clippy::expect_used, clippy::panic, reason = "test code")]

use pgrx::prelude::*;

#[pg_schema]
mod tests {
    use pgrx::prelude::*;

    use crate::test_support::random::Random;
    use crate::test_support::{check, quote, run, sql};

    /// Zones with something to them: halves and quarters of hours, gaps at midnight, a lost day, negative DST, no DST.
    const ZONES: [&str; 20] = [
        "America/New_York",
        "Europe/Berlin",
        "Europe/Dublin",
        "Australia/Lord_Howe",
        "Pacific/Apia",
        "Antarctica/Troll",
        "Africa/Casablanca",
        "Asia/Beirut",
        "Pacific/Chatham",
        "America/Santiago",
        "America/Nuuk",
        "America/Sao_Paulo",
        "Asia/Kathmandu",
        "Asia/Tehran",
        "America/St_Johns",
        "Asia/Gaza",
        "Pacific/Kwajalein",
        "America/Havana",
        "Asia/Amman",
        "UTC",
    ];

    /// An instant from 1990 to 2037, mostly within two days before a change of the zone (as PostgreSQL tells it).
    fn instant(random: &mut Random, zone: &str) -> String {
        let second = 631_152_000 + random.below(48 * 31_556_952);
        if random.below(5) == 0 {
            return sql(&format!("SELECT to_timestamp({second})"));
        }
        let back = 43_200 + random.below(86_400);
        sql(&format!(
            "SELECT COALESCE((SELECT max(h) FROM (SELECT h, h AT TIME ZONE {zone} - h AT TIME ZONE 'UTC' AS o,
                                       lag(h AT TIME ZONE {zone} - h AT TIME ZONE 'UTC') OVER (ORDER BY h) AS before
                                  FROM generate_series(to_timestamp({second}), to_timestamp({second}) + interval '1 year', '12 hours') h) c
                      WHERE o <> before), to_timestamp({second})) - {back} * interval '1 second'",
            zone = quote(zone)
        ))
    }

    fn list(numbers: &[u64]) -> String {
        numbers.iter().map(u64::to_string).collect::<Vec<_>>().join(",")
    }

    /// `readings`: every instant at which the zone's clock shows l. `rule8`: the one that docs/reference/clocks.md chooses.
    fn define_rules() {
        run(&[
            "SET LOCAL timezone = 'UTC'",
            "CREATE FUNCTION pg_temp.readings(l timestamp, z text) RETURNS timestamptz[] LANGUAGE sql STABLE AS $$
                 SELECT array_agg(DISTINCT t ORDER BY t)
                   FROM (SELECT (l - ((u + d) AT TIME ZONE z - (u + d) AT TIME ZONE 'UTC')) AT TIME ZONE 'UTC'
                           FROM (SELECT l AT TIME ZONE 'UTC') o (u), generate_series(-48, 48, 12) h, make_interval(hours => h) d) c (t)
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

    /// Fixed and wild cron clocks over two weeks from a random instant: all plan times, against all matching readings.
    #[pg_test]
    fn cron_clocks_against_at_time_zone() {
        define_rules();
        let mut random = Random(0x5EED_C10C);
        let (mut plans, mut moved) = (0, 0);
        for _ in 0..800 {
            let zone = random.pick(&ZONES);
            let after = instant(&mut random, zone);
            let wild = random.below(4) == 0;
            let hours = if random.below(4) > 0 { random.some(3, 0, 3) } else { random.some(3, 0, 23) };
            let minutes = match random.below(3) {
                _ if wild => vec![0, 20, 40],
                0 => random.some(3, 0, 59),
                _ => vec![0, 30],
            };
            let (month_star, week_star) = (random.below(6) > 0, random.below(6) > 0);
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
                    "SELECT m FROM (SELECT m, m AT TIME ZONE {z} AS l FROM generate_series(date_trunc('minute', a), a + interval '14 days', '5 minutes') m) x WHERE {}",
                    matches("l")
                )
            } else {
                // Readings from three days before: one of them may lie in a gap as long as a day.
                format!(
                    "SELECT DISTINCT pg_temp.rule8(l, {z}) AS m
                       FROM generate_series(date_trunc('day', a AT TIME ZONE {z}) - interval '3 days', a AT TIME ZONE {z} + interval '16 days', '1 day') d,
                            unnest(ARRAY[{}]) h, unnest(ARRAY[{}]) i, LATERAL (SELECT d + make_interval(hours => h, mins => i)) x (l) WHERE {}",
                    list(&hours),
                    list(&minutes),
                    matches("l")
                )
            };
            // Wild clocks are compared on a grid of five minutes, which every change of these zones is on.
            let after = if wild { sql(&format!("SELECT date_trunc('hour', '{after}'::timestamptz)")) } else { after };
            let answer = sql(&format!(
                "WITH o AS MATERIALIZED (SELECT '{after}'::timestamptz AS a),
                      e AS (SELECT e.m FROM o, LATERAL ({expected}) e WHERE m > a AND m <= a + interval '14 days'),
                      p AS (SELECT p.* FROM o, sched.preview({}, {z}, a, {}) p WHERE plan_time <= a + interval '14 days')
                 SELECT (SELECT array_agg(m ORDER BY m) FROM e) IS NOT DISTINCT FROM (SELECT array_agg(plan_time ORDER BY plan_time) FROM p),
                        (SELECT count(*) FROM p WHERE local_time <> plan_time AT TIME ZONE {z}), (SELECT count(*) FROM p),
                        (SELECT count(*) FROM p WHERE note IS NOT NULL),
                        (SELECT count(*) FROM p WHERE note LIKE '%comes twice%' AND cardinality(pg_temp.readings(local_time, {z})) < 2)",
                quote(&clock),
                if wild { 1_100 } else { 300 }
            ));
            let numbers: Vec<&str> = answer.split('|').collect();
            assert!(
                numbers[0] == "t" && numbers[1] == "0" && numbers[4] == "0",
                "{clock} in {zone} after {after}: {answer}"
            );
            assert!(!wild || numbers[3] == "0", "a wild clock has a note: {clock} in {zone} after {after}");
            plans += numbers[2].parse::<u32>().unwrap();
            moved += numbers[3].parse::<u32>().unwrap();
        }
        assert!(plans > 10_000 && moved > 60, "{plans} {moved}");
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
            let anchor = instant(&mut random, zone);
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
}
