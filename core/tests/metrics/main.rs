//! What is counted, and the text that monitoring systems read.
#![allow(clippy::unwrap_used, clippy::expect_used, clippy::panic)]

use proptest::prelude::*;
use scheduler_core::lease::{Claim, Status};
use scheduler_core::metrics::{encode, Counts, Event, Family, Sample, WIDTH};
use scheduler_core::schedule::SkipReason;
use scheduler_core::Keyword;

fn samples(counts: &Counts, job: &str) -> Vec<Sample> {
    let labels = [("job", job.to_owned()), ("queue", "default".to_owned())];
    let mut out = Vec::new();
    Family::ALL.iter().for_each(|family| counts.samples(*family, &labels, &mut out));
    out
}

fn value(samples: &[Sample], name: &str, label: (&str, &str)) -> f64 {
    let is_it = |sample: &&Sample| {
        sample.name() == name && sample.labels.iter().any(|(key, value)| (*key, value.as_str()) == label)
    };
    let found: Vec<&Sample> = samples.iter().filter(is_it).collect();
    assert_eq!(found.len(), 1, "{name} {label:?}: {found:?}");
    found[0].value
}

#[test]
fn each_event_is_counted_where_it_belongs() {
    let mut counts = Counts::default();
    assert!(counts.is_empty());
    let mut events =
        vec![Event::Fired(3), Event::Enqueued(5), Event::Retried, Event::Late(20_000), Event::Lasted(7_200_000_000)];
    events.extend(Claim::ALL.iter().map(|claim| Event::Claimed(*claim)));
    events.extend(Status::ALL.iter().map(|status| Event::Ended(*status, 1)));
    events.extend(SkipReason::ALL.iter().zip(10..).map(|(reason, count)| Event::Skipped(*reason, count)));
    events.iter().for_each(|event| counts.add(*event));
    let found = samples(&counts, "mail");
    let job = ("job", "mail");
    assert_eq!(value(&found, "sched_fires_total", job), 3.0);
    assert_eq!(value(&found, "sched_enqueued_total", job), 5.0);
    assert_eq!(value(&found, "sched_retries_total", job), 1.0);
    for claim in Claim::ALL {
        assert_eq!(value(&found, "sched_claims_total", ("outcome", claim.as_str())), 1.0);
    }
    for status in [Status::Success, Status::Failed, Status::Cancelled] {
        assert_eq!(value(&found, "sched_finishes_total", ("outcome", status.as_str())), 1.0);
    }
    for (reason, count) in SkipReason::ALL.iter().zip(10_u32..) {
        assert_eq!(value(&found, "sched_skips_total", ("reason", reason.as_str())), f64::from(count));
    }
    assert_eq!(value(&found, "sched_lateness_seconds_bucket", ("le", "0.01")), 0.0);
    assert_eq!(value(&found, "sched_lateness_seconds_bucket", ("le", "0.05")), 1.0);
    assert_eq!(value(&found, "sched_lateness_seconds_sum", job), 0.02);
    assert_eq!(value(&found, "sched_duration_seconds_bucket", ("le", "3600.0")), 0.0);
    assert_eq!(value(&found, "sched_duration_seconds_bucket", ("le", "+Inf")), 1.0);
    assert_eq!(value(&found, "sched_duration_seconds_sum", job), 7200.0);
    assert_eq!(value(&found, "sched_duration_seconds_count", job), 1.0);
}

#[test]
fn what_is_early_is_on_time_and_a_bound_belongs_to_its_bucket() {
    let mut counts = Counts::default();
    [i64::MIN, -1, 0, 10_000].iter().for_each(|micros| counts.add(Event::Late(*micros)));
    counts.add(Event::Late(10_001));
    let found = samples(&counts, "mail");
    assert_eq!(value(&found, "sched_lateness_seconds_bucket", ("le", "0.01")), 4.0);
    assert_eq!(value(&found, "sched_lateness_seconds_sum", ("job", "mail")), 0.020_001);
}

#[test]
fn counts_are_added() {
    let (mut one, mut other) = (Counts::default(), Counts::default());
    one.add(Event::Fired(1));
    other.add(Event::Fired(2));
    other.add(Event::Late(1));
    one.absorb(&other);
    assert_eq!(value(&samples(&one, "a"), "sched_fires_total", ("job", "a")), 3.0);
    assert_eq!(one.0.iter().filter(|count| **count > 0).count(), 3);
    assert_eq!(one.0.len(), WIDTH);
}

#[test]
fn the_text_is_as_it_was() {
    let mut counts = Counts::default();
    counts.add(Event::Fired(2));
    counts.add(Event::Late(300_000));
    let mut all = samples(&counts, "say \"hi\"\\\nnow");
    all.push(Sample::gauge(Family::QueueDepth, vec![("queue", "default".to_owned())], 0.0));
    all.push(Sample::gauge(Family::NextFire, Vec::new(), 1_795_000_000.25));
    let golden = include_str!("../data/openmetrics.golden");
    assert_eq!(encode(&all), golden, "{}", encode(&all));
}

#[test]
fn every_family_says_what_it_is() {
    for family in Family::ALL {
        assert!(family.name().starts_with("sched_"), "{}", family.name());
        assert!(family.help().ends_with('.') && !family.help().contains('\n'), "{}", family.name());
        assert!(!family.name().ends_with("_total"), "{}", family.name());
        assert_eq!(family.unit().is_some(), family.name().ends_with("_seconds"));
    }
}

proptest! {
    /// Whatever a name is, it stays on its line and between its quotes, and is what it was once it is read.
    #[test]
    fn a_name_breaks_nothing(job in "(?s)[^\0]{0,40}") {
        let text = encode(&[Sample::gauge(Family::QueueDepth, vec![("queue", job.clone())], 1.5)]);
        let lines: Vec<&str> = text.split_terminator('\n').collect();
        prop_assert_eq!(lines.len(), 4, "{}", text);
        let value = lines[2].strip_prefix("sched_queue_depth{queue=\"").and_then(|rest| rest.strip_suffix("\"} 1.5"));
        let (mut read, mut characters) = (String::new(), value.unwrap().chars());
        while let Some(character) = characters.next() {
            match character {
                '\\' => read.push(match characters.next() {
                    Some('n') => '\n',
                    Some(escaped @ ('"' | '\\')) => escaped,
                    other => panic!("{other:?} is no escape"),
                }),
                '"' => panic!("a quote inside of {text}"),
                other => read.push(other),
            }
        }
        prop_assert_eq!(read, job);
    }
}
