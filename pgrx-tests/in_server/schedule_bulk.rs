//! create_schedules.

use pgrx::prelude::*;

#[pg_schema]
mod tests {
    use pgrx::prelude::*;

    use crate::test_support::{check, created, dispatch, refused, run};

    #[pg_test]
    fn create_schedules_takes_what_create_schedule_takes() {
        run(&["SELECT sched.define_job('b/job')"]);
        check("SELECT sched.create_schedules('[]')", "0");
        check(
            r#"SELECT sched.create_schedules('[{"schedule_name": "b/1", "clock": "@daily", "job_name": "b/job"},
                 {"schedule_name": "b/2", "clock": "every 1 hour", "job_name": "b/job", "time_zone": "Europe/Berlin", "payload": {"n": 1.50},
                  "scope_kind": "k", "scope_id": "i", "catch_up": "every_plan", "catch_up_window": "1 day", "max_plans_per_tick": 3,
                  "rearm": "on_terminal", "overlap": "skip", "delay": "1 s", "jitter": "2 s", "starts_at": "2031-01-01 00:00+00",
                  "ends_at": "2032-01-01 00:00+00", "ownership": "external", "enabled": false}]')"#,
            "2",
        );
        check(
            "SELECT clock, time_zone, payload, scope_kind, scope_id, catch_up, catch_up_window, max_plans_per_tick, rearm, overlap, delay,
                    jitter, starts_at, ends_at, ownership, enabled FROM sched.schedule ORDER BY schedule_name",
            "@daily|UTC|{}|schedule|b/1|latest_only||100|on_dispatch|allow|00:00:00|00:00:00|||owned|t\n\
             every 1 hour|Europe/Berlin|{\"n\": 1.50}|k|i|every_plan|1 day|3|on_terminal|skip|00:00:01|00:00:02|\
             2031-01-01 00:00:00+00|2032-01-01 00:00:00+00|external|f",
        );
        dispatch(0);
        check("SELECT string_agg(state, ' ' ORDER BY schedule_name) FROM sched.schedules", "armed external");
    }

    #[pg_test]
    fn create_schedules_is_all_or_nothing_and_says_where() {
        created("b/taken", "never", "");
        for (second, sqlstate, words) in [
            (
                r#"{"schedule_name": "b/x", "clock": "61 * * * *", "job_name": "J"}"#,
                "22023",
                "element 2, key \"clock\"",
            ),
            (
                r#"{"schedule_name": "b/x", "clock": "never", "job_name": "none"}"#,
                "42704",
                "element 2, key \"job_name\"",
            ),
            (
                r#"{"schedule_name": "b/taken", "clock": "never", "job_name": "J"}"#,
                "42710",
                "element 2, key \"schedule_name\"",
            ),
            (
                r#"{"schedule_name": "b/first", "clock": "never", "job_name": "J"}"#,
                "42710",
                "element 2, key \"schedule_name\"",
            ),
            (r#"{"schedule_name": "b/x", "clock": "never"}"#, "22004", "element 2, key \"job_name\""),
            (
                r#"{"schedule_name": "", "clock": "never", "job_name": "J"}"#,
                "22023",
                "element 2, key \"schedule_name\"",
            ),
            (
                r#"{"schedule_name": "b/x", "clock": "never", "job_name": "J", "delay": "soon"}"#,
                "22023",
                "element 2, key \"delay\"",
            ),
            (
                r#"{"schedule_name": "b/x", "clock": "never", "job_name": "J", "delay": "-1 s"}"#,
                "22023",
                "element 2, key \"delay\"",
            ),
            (
                r#"{"schedule_name": "b/x", "clock": "never", "job_name": "J", "max_plans_per_tick": 0}"#,
                "22023",
                "key \"max_plans_per_tick\"",
            ),
            (
                r#"{"schedule_name": "b/x", "clock": "never", "job_name": "J", "time_zone": "Mars/Olympus"}"#,
                "22023",
                "key \"time_zone\"",
            ),
            (
                r#"{"schedule_name": "b/x", "clock": "never", "job_name": "J", "ends_at": "infinity"}"#,
                "22008",
                "key \"ends_at\"",
            ),
            (r#"{"schedule_name": "b/x", "clock": "never", "job_name": "J", "colour": 1}"#, "22023", "colour"),
            ("7", "22023", "element 2"),
            ("null", "22023", "element 2"),
        ] {
            let first = r#"{"schedule_name": "b/first", "clock": "never", "job_name": "J"}"#;
            let specs = format!("[{first}, {second}]").replace("\"J\"", "\"job of b/taken\"");
            let refusal = refused(&format!("SELECT sched.create_schedules('{specs}')"), sqlstate);
            assert!(refusal.message.contains(words), "{}: {second}", refusal.message);
        }
        refused("SELECT sched.create_schedules(NULL)", "22004");
        refused("SELECT sched.create_schedules('{}')", "22023");
        refused("SELECT sched.create_schedules('7')", "22023");
        check("SELECT count(*) FROM sched.schedule", "1");
    }

    /// It is looked for by halves: not with each element alone, which would read the whole array each time.
    #[pg_test]
    fn an_element_that_cannot_be_read_is_found_in_a_long_array() {
        run(&["SELECT sched.define_job('J')"]);
        let of = |bad: &str| {
            format!(
                r#"SELECT sched.create_schedules((SELECT jsonb_agg(jsonb_build_object('schedule_name', n::text, 'clock', 'never', 'job_name', 'J',
                          'delay', '1 s', 'jitter', CASE WHEN n IN ({bad}) THEN 'soon' END) ORDER BY n) FROM generate_series(1, 6000) n))"#
            )
        };
        let began = std::time::Instant::now();
        for (bad, first) in [("6000", 6000), ("1", 1), ("2999, 3000, 5000", 2999)] {
            let refusal = refused(&of(bad), "22023");
            assert!(refusal.message.starts_with(&format!("element {first}, key \"jitter\": ")), "{}", refusal.message);
        }
        assert!(began.elapsed().as_secs() < 20);
        check(&of("0"), "6000");
    }

    #[pg_test]
    fn create_schedules_takes_no_value_of_another_json_type() {
        run(&["SELECT sched.define_job('J')"]);
        let of = |key: &str, value: &str| {
            let mut spec = vec![("schedule_name", "\"b/x\""), ("clock", "\"never\""), ("job_name", "\"J\"")];
            spec.retain(|(name, _)| *name != key);
            spec.push((key, value));
            let spec: Vec<_> = spec.iter().map(|(key, value)| format!("\"{key}\": {value}")).collect();
            format!("SELECT sched.create_schedules('[{{{}}}]')", spec.join(", "))
        };
        let texts = "schedule_name clock job_name time_zone scope_kind scope_id catch_up rearm overlap ownership";
        let others = "catch_up_window delay jitter starts_at ends_at";
        for key in texts.split(' ').chain(others.split(' ')) {
            for (value, json_type) in
                [("[\"1 s\"]", "array"), ("{\"a\": 1}", "object"), ("7", "number"), ("true", "boolean")]
            {
                let refusal = refused(&of(key, value), "22023");
                let says = format!("element 1, key \"{key}\": {value} is of the JSON type {json_type}, not string");
                assert_eq!(refusal.message, says);
            }
        }
        for (key, values, wanted) in [
            ("max_plans_per_tick", ["[3]", "{\"a\": 3}", "true"], "number"),
            ("enabled", ["[true]", "{\"a\": true}", "1"], "boolean"),
        ] {
            for value in values {
                let refusal = refused(&of(key, value), "22023");
                let says = format!("element 1, key \"{key}\": {value} is of the JSON type ");
                assert!(refusal.message.starts_with(&says) && refusal.message.ends_with(wanted), "{}", refusal.message);
            }
        }
        // A long one is not repeated to its end.
        let long = format!("[\"{}\"]", "x".repeat(10_000));
        assert!(refused(&of("clock", &long), "22023").message.len() < 300);
        check("SELECT count(*) FROM sched.schedule", "0");
        // A payload is whatever JSON there is; null is what is left out; a string says a number or a boolean, too.
        for (place, (key, value)) in [
            ("payload", "[7]"),
            ("payload", "7"),
            ("payload", "\"x\""),
            ("delay", "null"),
            ("enabled", "null"),
            ("max_plans_per_tick", "\"3\""),
            ("enabled", "\"off\""),
        ]
        .into_iter()
        .enumerate()
        {
            check(&of(key, value).replace("b/x", &format!("b/{place}")), "1");
        }
    }
}
