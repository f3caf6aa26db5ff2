//! Positions in an order, and how processes share one.

use std::cmp::Reverse;
use std::sync::atomic::{AtomicI32, AtomicI64, AtomicU64, Ordering::SeqCst};

use pgrx::datum::Uuid;
use scheduler_core::Instant;

/// The place of an entry in an order.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Debug)]
pub struct Position {
    pub(super) priority: Reverse<i32>,
    pub(super) time: i64,
    pub(super) id: u128,
}

impl Position {
    /// Before every entry.
    pub const START: Position = Position { priority: Reverse(i32::MAX), time: i64::MIN, id: 0 };
    /// After every entry.
    pub const END: Position = Position { priority: Reverse(i32::MIN), time: i64::MAX, id: u128::MAX };

    /// That of all entries of a table of which only matters whether it has any.
    pub const SOMEWHERE: Position = Position { priority: Reverse(0), time: 0, id: 0 };

    /// In a queue, where plan times of one priority follow each other.
    pub fn new(priority: i32, plan_time: impl Into<i64>, id: Uuid) -> Position {
        Position { priority: Reverse(priority), time: plan_time.into(), id: u128::from_be_bytes(*id.as_bytes()) }
    }

    /// In an order of times: before what else has this time.
    pub fn at(time: impl Into<i64>) -> Position {
        Position { priority: Reverse(0), time: time.into(), id: 0 }
    }

    /// In an order of times, where entries of one time follow each other by their ids.
    pub fn at_entry(time: impl Into<i64>, id: Uuid) -> Position {
        Position { id: u128::from_be_bytes(*id.as_bytes()), ..Position::at(time) }
    }

    /// Its priority, time (in microseconds of Postgres) and id.
    pub fn parts(self) -> (i32, i64, Uuid) {
        (self.priority.0, self.time, Uuid::from_bytes(self.id.to_be_bytes()))
    }

    /// Its time, of an order of times; of what has none (an end, an infinite time) the first or the last that there is.
    pub fn time(self) -> Instant {
        let edge = if self.time < 0 { Instant::MIN } else { Instant::MAX };
        Instant::from_micros(self.time).unwrap_or(edge)
    }

    /// Whether an order of times has come to nothing at `now` yet.
    pub fn is_after(self, now: Instant) -> bool {
        self.time > now.as_micros()
    }
}

/// A position that processes share. Written and read under a lock.
#[derive(Default)]
pub struct Shared {
    priority: AtomicI32,
    time: AtomicI64,
    id: [AtomicU64; 2],
}

impl Shared {
    /// Reads it.
    pub fn get(&self) -> Position {
        let [upper, lower] = self.id.each_ref().map(|part| u128::from(part.load(SeqCst)));
        Position {
            priority: Reverse(self.priority.load(SeqCst)),
            time: self.time.load(SeqCst),
            id: upper << 64 | lower,
        }
    }

    /// Writes it.
    pub fn set(&self, position: Position) {
        self.priority.store(position.priority.0, SeqCst);
        self.time.store(position.time, SeqCst);
        for (part, value) in self.id.iter().zip([(position.id >> 64) as u64, position.id as u64]) {
            part.store(value, SeqCst);
        }
    }
}
