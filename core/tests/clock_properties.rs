//! What must hold for every clock, zone and instant, on random ones.
#![allow(
    clippy::unwrap_used,
    clippy::expect_used,
    clippy::panic,
    clippy::wildcard_enum_match_arm,
    reason = "test code"
)]

mod clock_support;

use clock_support::{zone, Noisy};
use proptest::prelude::*;
use scheduler_core::clock::zone::{FixedOffset, Local, Zone};
use scheduler_core::clock::Clock;
use scheduler_core::time::Instant;

const ZONES: [&str; 9] = [
    "UTC",
    "America/New_York",
    "Europe/Berlin",
    "Australia/Lord_Howe",
    "Pacific/Apia",
    "Antarctica/Troll",
    "Africa/Casablanca",
    "America/Nuuk",
    "America/Juneau",
];

fn item(min: u32, max: u32) -> impl Strategy<Value = String> {
    prop_oneof![
        3 => (min..=max).prop_map(|a| a.to_string()),
        2 => (min..=max, min..=max).prop_map(|(a, b)| format!("{}-{}", a.min(b), a.max(b))),
        1 => (min..=max, min..=max, 1u32..70).prop_map(|(a, b, n)| format!("{}-{}/{n}", a.min(b), a.max(b))),
        1 => Just("*".to_owned()),
        1 => (1u32..70).prop_map(|n| format!("*/{n}")),
    ]
}

fn field(min: u32, max: u32) -> impl Strategy<Value = String> {
    prop_oneof![
        1 => Just("*".to_owned()),
        2 => prop::collection::vec(item(min, max), 1..4).prop_map(|items| items.join(",")),
    ]
}

fn day_of_month() -> impl Strategy<Value = String> {
    prop_oneof![
        4 => field(1, 31),
        1 => prop::collection::vec(
            prop_oneof![Just("L".to_owned()), Just("LW".to_owned()), (1u32..=31).prop_map(|n| format!("{n}W")), item(1, 31)],
            1..4
        )
        .prop_map(|items| items.join(",")),
    ]
}

fn day_of_week() -> impl Strategy<Value = String> {
    prop_oneof![
        4 => field(0, 7),
        1 => prop::collection::vec(
            prop_oneof![
                (0u32..=7).prop_map(|n| format!("{n}L")),
                (0u32..=7, 1u32..=5).prop_map(|(n, k)| format!("{n}#{k}")),
                Just("fri-sun".to_owned()),
                item(0, 7)
            ],
            1..4
        )
        .prop_map(|items| items.join(",")),
    ]
}

fn cron() -> impl Strategy<Value = String> {
    let fields = (field(0, 59), field(0, 23), day_of_month(), field(1, 12), day_of_week(), prop::bool::weighted(0.25));
    let five = fields.prop_map(|(m, h, d, mo, w, both)| format!("{m} {h} {d} {mo} {}{w}", if both { "+" } else { "" }));
    (
        five,
        prop_oneof![2 => Just(None), 1 => field(0, 59).prop_map(Some)],
        prop_oneof![4 => Just(None), 1 => field(1970, 2099).prop_map(Some)],
    )
        .prop_map(|(five, seconds, year)| match (seconds, year) {
            (None, None) => five,
            (Some(seconds), None) => format!("{seconds} {five}"),
            (seconds, Some(year)) => format!("{} {five} {year}", seconds.unwrap_or_else(|| "0".to_owned())),
        })
}

fn every() -> impl Strategy<Value = String> {
    let part = |unit: &'static str, most: u32| (1..most).prop_map(move |n| format!("{n} {unit}"));
    let interval = prop_oneof![
        part("seconds", 100_000),
        part("microseconds", 4_000_000_000),
        part("minutes", 5_000),
        part("days", 400),
        part("weeks", 60),
        part("months", 40),
        part("years", 5),
        (1u32..20, 1u32..40, 1u32..100_000).prop_map(|(m, d, s)| format!("{m} months {d} days {s} seconds")),
        (1u32..20, 0u32..100_000).prop_map(|(d, s)| format!("{d} days {s}.25 seconds")),
    ];
    let from = prop_oneof![
        Just(String::new()),
        Just(" from epoch".to_owned()),
        (1900i64..2090, 1u32..=12, 1u32..=28, 0u32..24, 0u32..60)
            .prop_map(|(y, m, d, h, mi)| format!(" from {y}-{m:02}-{d:02} {h:02}:{mi:02}")),
        Just(" from 2024-01-31 02:30:00.123456".to_owned()),
        Just(" from 2023-11-05 06:30+00".to_owned()),
    ];
    (interval, from).prop_map(|(interval, from)| format!("every {interval}{from}"))
}

fn any_clock() -> impl Strategy<Value = String> {
    prop_oneof![4 => cron(), 3 => every(), 1 => Just("at 2026-03-08 02:30".to_owned()), 1 => Just("@hourly".to_owned())]
}

/// An instant between 1900 and 2101, often near a change of the zone.
fn instant_near(zone_index: usize) -> impl Strategy<Value = Instant> {
    let table = zone(ZONES[zone_index]);
    let changes: Vec<i64> = table.transitions.iter().map(|&(at, _)| at).filter(|&at| at > -3_000_000_000).collect();
    let anywhere = -2_208_988_800i64..4_133_980_800;
    let second = if changes.is_empty() {
        anywhere.boxed()
    } else {
        prop_oneof![1 => anywhere, 2 => (prop::sample::select(changes), -90_000i64..90_000).prop_map(|(at, by)| at + by)].boxed()
    };
    (second, prop_oneof![Just(0i64), 0i64..1_000_000])
        .prop_map(|(second, micros)| Instant::from_unix_seconds(second).unwrap().checked_add_micros(micros).unwrap())
}

fn case() -> impl Strategy<Value = (String, usize, Instant)> {
    (0..ZONES.len()).prop_flat_map(|index| (any_clock(), Just(index), instant_near(index)))
}

/// The laws of next and previous at one instant.
fn laws(text: &str, zone: &impl Zone, t: Instant) -> Result<(), TestCaseError> {
    let clock = Clock::parse(text).map_err(|error| TestCaseError::fail(format!("{text}: {error}")))?;
    let anchor = Instant::from_unix_seconds(1_700_000_000).unwrap();
    let timeline = clock.bind(zone, anchor);
    let next = timeline.next_after(t);
    let previous = timeline.previous_at_or_before(t);
    if let Some(next) = next {
        prop_assert!(next > t, "next is not later");
        prop_assert_eq!(timeline.previous_at_or_before(next), Some(next), "next is a plan time");
        prop_assert_eq!(timeline.next_after(next.checked_add_micros(-1).unwrap()), Some(next));
        // Nothing between: the last plan time before next is not after t.
        let before = timeline.previous_at_or_before(next.checked_add_micros(-1).unwrap());
        prop_assert_eq!(before, previous, "something lies between");
        prop_assert_eq!(timeline.count_between(t, next, 10), 1);
        let _ = timeline.dst_note(next);
    }
    if let Some(previous) = previous {
        prop_assert!(previous <= t, "previous is later");
        prop_assert_eq!(timeline.previous_at_or_before(previous), Some(previous));
        prop_assert_eq!(timeline.next_after(previous), next, "something lies between");
    }
    // A timeline that has seen nothing else gives the same answers: the memory of spans changes nothing.
    let fresh = clock.bind(zone, anchor);
    prop_assert_eq!(fresh.previous_at_or_before(t), previous);
    prop_assert_eq!(clock.bind(zone, anchor).next_after(t), next);
    Ok(())
}

/// Counting from t to one of the next `far` plan times gives as many as walking there.
fn counts(text: &str, zone: &impl Zone, t: Instant, far: u64) -> Result<(), TestCaseError> {
    let clock = Clock::parse(text).unwrap();
    let timeline = clock.bind(zone, Instant::from_unix_seconds(1_700_000_000).unwrap());
    let (mut at, mut walked) = (t, 0);
    // Far enough for several clock changes, near enough to walk.
    let horizon = Instant::from_unix_seconds(t.unix_seconds() + 2 * 366 * 86_400).unwrap();
    while let Some(next) = timeline.next_after(at).filter(|next| walked < far && *next < horizon) {
        (at, walked) = (next, walked + 1);
        if walked % 97 == 1 || walked == far {
            let just_before = at.checked_add_micros(-1).unwrap();
            prop_assert_eq!(timeline.count_between(t, at, u64::MAX), walked, "up to {:?}", at);
            prop_assert_eq!(timeline.count_between(t, just_before, u64::MAX), walked - 1, "before {:?}", at);
        }
    }
    Ok(())
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 1_500, rng_seed: prop::test_runner::RngSeed::Fixed(20_261_120), failure_persistence: None, ..ProptestConfig::default() })]

    #[test]
    fn next_and_previous_are_inverse((text, index, t) in case()) {
        laws(&text, zone(ZONES[index]), t)?;
    }

    #[test]
    fn counting_is_walking((text, index, t) in case(), far in 1u64..400) {
        counts(&text, zone(ZONES[index]), t, far)?;
        // Also across boundaries at which nothing changes; Postgres reports some.
        counts(&text, &Noisy(zone(ZONES[index]), 40_000), t, far)?;
    }

    #[test]
    fn boundaries_without_a_change_change_nothing((text, index, t) in case()) {
        let table = zone(ZONES[index]);
        let clock = Clock::parse(&text).unwrap();
        let noisy = Noisy(table, 3 * 86_400 + 17);
        prop_assert_eq!(clock.bind(&noisy, t).next_after(t), clock.bind(table, t).next_after(t));
        prop_assert_eq!(clock.bind(&noisy, t).previous_at_or_before(t), clock.bind(table, t).previous_at_or_before(t));
    }

    #[test]
    fn printing_and_parsing_are_inverse(text in any_clock()) {
        let clock = Clock::parse(&text).unwrap();
        let printed = clock.to_string();
        let again = Clock::parse(&printed);
        prop_assert_eq!(again.as_ref(), Ok(&clock), "{} printed as {}", text, printed);
        prop_assert_eq!(again.unwrap().to_string(), printed);
    }

    #[test]
    fn far_ends_of_time_are_safe(text in any_clock(), micros in any::<i64>(), offset in -57_599i32..=57_599) {
        let clock = Clock::parse(&text).unwrap();
        let zone = FixedOffset(offset);
        for t in [Instant::MIN, Instant::MAX, Instant::from_micros(micros).unwrap_or(Instant::MIN)] {
            let timeline = clock.bind(&zone, t);
            if let Some(next) = timeline.next_after(t) {
                prop_assert!(next > t);
            }
            if let Some(previous) = timeline.previous_at_or_before(t) {
                prop_assert!(previous <= t);
            }
            let _ = (timeline.local_at(t), timeline.local(t.as_micros()));
        }
    }

    #[test]
    fn arbitrary_text_is_judged_without_a_panic(text in "\\PC{0,60}") {
        judged(&text)?;
    }

    #[test]
    fn nearly_right_text_is_judged_without_a_panic(
        text in any_clock(), at in any::<prop::sample::Index>(), junk in "[-*/,#?LWlw0-9a-z :.+@PT\t]{0,3}"
    ) {
        let at = at.index(text.len() + 1);
        judged(&format!("{}{junk}{}", &text[..at], &text[at..]))?;
    }
}

/// Refused with a whole message, or accepted and printable.
fn judged(text: &str) -> Result<(), TestCaseError> {
    match Clock::parse(text) {
        Ok(clock) => {
            let printed = clock.to_string();
            let again = Clock::parse(&printed);
            prop_assert_eq!(again.as_ref(), Ok(&clock), "{:?} printed as {}", text, printed);
        }
        Err(error) => {
            let line = error.to_string();
            prop_assert!(!line.contains('\n') && !line.ends_with('.'), "{}", line);
            prop_assert!(
                error.hint().ends_with('.') && error.hint().starts_with(char::is_uppercase),
                "{}",
                error.hint()
            );
            let position = error.position().unwrap();
            prop_assert!(position >= 1 && position <= text.chars().count() + 1, "{} of {:?}", position, text);
        }
    }
    Ok(())
}

#[test]
fn every_reading_of_an_overlap_and_a_gap_is_named() {
    let berlin = zone("Europe/Berlin");
    let clock = Clock::Never;
    let timeline = clock.bind(berlin, Instant::UNIX_EPOCH);
    let reading = |text: &str| match Clock::parse(&format!("at {text}")).unwrap() {
        Clock::At(scheduler_core::clock::DateTime::Local(micros)) => timeline.local(micros).unwrap(),
        other => panic!("{other}"),
    };
    assert!(matches!(reading("2026-03-29 01:59:59"), Local::Single(_)));
    assert!(matches!(reading("2026-03-29 02:00"), Local::Gap { length: 3600, .. }));
    assert!(matches!(reading("2026-03-29 02:59:59"), Local::Gap { length: 3600, .. }));
    assert!(matches!(reading("2026-03-29 03:00"), Local::Single(_)));
    assert!(matches!(reading("2026-10-25 01:59:59"), Local::Single(_)));
    match reading("2026-10-25 02:30") {
        Local::Ambiguous { earlier, later } => assert_eq!(later.as_micros() - earlier.as_micros(), 3_600_000_000),
        other => panic!("{other:?}"),
    }
    assert!(matches!(reading("2026-10-25 03:00"), Local::Single(_)));
}
