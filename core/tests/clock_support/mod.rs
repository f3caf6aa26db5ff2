//! What the clock tests share: zones out of chrono-tz behind the core's trait, and date-times as text.
#![allow(
    dead_code,
    clippy::unwrap_used,
    clippy::expect_used,
    clippy::panic,
    clippy::wildcard_enum_match_arm,
    reason = "test code"
)]

use std::collections::HashMap;
use std::sync::{Mutex, OnceLock};

use chrono::{DateTime, Offset, TimeZone};
use chrono_tz::Tz;
use scheduler_core::clock::zone::{Span, Zone};
use scheduler_core::clock::{Clock, LocalDisplay, Timeline};
use scheduler_core::time::Instant;

/// A zone as a table of transitions.
#[derive(Debug)]
pub struct Table {
    /// The offset before the first transition.
    pub first: i32,
    /// Unix second and the offset from then on.
    pub transitions: Vec<(i64, i32)>,
}

impl Zone for Table {
    fn span_at(&self, second: i64) -> Span {
        let next = self.transitions.partition_point(|&(at, _)| at <= second);
        let offset = if next == 0 { self.first } else { self.transitions[next - 1].1 };
        Span { utc_offset_seconds: offset, until: self.transitions.get(next).map(|&(at, _)| at) }
    }
}

/// The same zone with boundaries at which nothing changes, as Postgres reports them.
#[derive(Debug)]
pub struct Noisy<'a, Z>(pub &'a Z, pub i64);

impl<Z: Zone> Zone for Noisy<'_, Z> {
    fn span_at(&self, second: i64) -> Span {
        let span = self.0.span_at(second);
        let noise = (second.div_euclid(self.1) + 1) * self.1;
        Span { until: Some(span.until.map_or(noise, |until| until.min(noise))), ..span }
    }
}

/// chrono-tz's offset at a Unix second.
pub fn offset_of(tz: Tz, second: i64) -> i32 {
    let utc = DateTime::from_timestamp(second, 0).unwrap().naive_utc();
    tz.offset_from_utc_datetime(&utc).fix().local_minus_utc()
}

fn scan(tz: Tz, from: i64, to: i64) -> Table {
    let first = offset_of(tz, from);
    let mut table = Table { first, transitions: Vec::new() };
    let (mut at, mut offset) = (from, first);
    while at < to {
        let next = at + 43_200;
        let after = offset_of(tz, next);
        if after != offset {
            let (mut low, mut high) = (at, next);
            while high - low > 1 {
                let middle = low + (high - low) / 2;
                if offset_of(tz, middle) == offset {
                    low = middle;
                } else {
                    high = middle;
                }
            }
            offset = offset_of(tz, high);
            table.transitions.push((high, offset));
            at = high;
        } else {
            at = next;
        }
    }
    table
}

/// A zone of chrono-tz, with its transitions from 1840 to 2101; scanned once.
pub fn zone(name: &str) -> &'static Table {
    between(name, -4_102_444_800, 4_133_980_800)
}

/// A zone of chrono-tz with its transitions from 1999 to 2040 only, which is quicker.
pub fn modern_zone(name: &str) -> &'static Table {
    between(name, 915_148_800, 2_208_988_800)
}

fn between(name: &str, from: i64, to: i64) -> &'static Table {
    static KNOWN: OnceLock<Mutex<HashMap<(String, i64), &'static Table>>> = OnceLock::new();
    let mut known = KNOWN.get_or_init(Mutex::default).lock().unwrap();
    known.entry((name.to_owned(), from)).or_insert_with(|| {
        let tz: Tz = name.parse().unwrap();
        Box::leak(Box::new(scan(tz, from, to)))
    })
}

/// Reads `2027-01-01 09:00+00`, by way of the core's own `at` clock.
pub fn instant(text: &str) -> Instant {
    match Clock::parse(&format!("at {text}")).unwrap_or_else(|error| panic!("{error}")) {
        Clock::At(scheduler_core::clock::DateTime::Fixed(instant)) => instant,
        other => panic!("{text} is no instant: {other}"),
    }
}

/// `2027-01-01 04:00:00-05`: the reading and the offset.
pub fn show<Z: Zone>(timeline: &Timeline<'_, Z>, t: Instant) -> String {
    let (local, offset) = timeline.local_at(t);
    let (sign, size) = if offset < 0 { ('-', -offset) } else { ('+', offset) };
    let mut text = format!("{}{sign}{:02}", LocalDisplay(local), size / 3600);
    if size % 3600 != 0 {
        text += &format!(":{:02}", size / 60 % 60);
    }
    if size % 60 != 0 {
        text += &format!(":{:02}", size % 60);
    }
    text
}

/// The plan times after `after`, at most `count`.
pub fn upcoming<Z: Zone>(timeline: &Timeline<'_, Z>, after: Instant, count: usize) -> Vec<Instant> {
    let mut at = after;
    let mut out = Vec::new();
    while out.len() < count {
        match timeline.next_after(at) {
            Some(next) => {
                assert!(next > at, "not later: {next:?} after {at:?}");
                out.push(next);
                at = next;
            }
            None => break,
        }
    }
    out
}

/// A small generator with a fixed seed (xorshift64*), so that failures repeat.
#[derive(Debug)]
pub struct Random(pub u64);

impl Random {
    pub fn next(&mut self) -> u64 {
        self.0 ^= self.0 >> 12;
        self.0 ^= self.0 << 25;
        self.0 ^= self.0 >> 27;
        self.0.wrapping_mul(0x2545_F491_4F6C_DD1D)
    }

    pub fn below(&mut self, n: u64) -> u64 {
        (self.next() >> 16) % n
    }

    pub fn pick<'a, T>(&mut self, items: &'a [T]) -> &'a T {
        &items[self.below(items.len() as u64) as usize]
    }
}

/// New York's rule since 2007, for every year: what `EST5EDT,M3.2.0,M11.1.0` says.
#[derive(Debug)]
pub struct Rule;

impl Zone for Rule {
    fn span_at(&self, second: i64) -> Span {
        use scheduler_core::time::civil::{civil_from_days, days_from_civil, weekday};
        let sunday = |year: i64, month: u32, nth: i64| {
            let first = days_from_civil(year, month, 1);
            first + (7 - i64::from(weekday(first))) % 7 + 7 * (nth - 1)
        };
        let (year, _, _) = civil_from_days((second - 18_000).div_euclid(86_400));
        let spring = sunday(year, 3, 2) * 86_400 + 7 * 3_600;
        let autumn = sunday(year, 11, 1) * 86_400 + 6 * 3_600;
        if second < spring {
            Span { utc_offset_seconds: -18_000, until: Some(spring) }
        } else if second < autumn {
            Span { utc_offset_seconds: -14_400, until: Some(autumn) }
        } else {
            Span { utc_offset_seconds: -18_000, until: Some(sunday(year + 1, 3, 2) * 86_400 + 7 * 3_600) }
        }
    }
}
