//! Where a claim begins to look: past what is gone and not vacuumed yet, as far as shared memory knows (`shmem/low_water_mark.rs`).

use std::cell::Cell;
use std::ffi::CStr;

use pgrx::datum::TimestampWithTimeZone;
use pgrx::pg_sys::{self, Oid};
use scheduler_core::Instant;

use crate::heap::layouts::ready;
use crate::heap::{Condition, Index, Table};
use crate::pg::convert::timestamp;
use crate::pg::record::{Column, Record};
use crate::shmem::low_water_mark::{Order, Position};
use crate::store::database_clock;

/// What is due of an order of times.
fn due(now: Instant) -> Condition {
    Condition::at_most(pg_sys::F_TIMESTAMPTZ_LE, timestamp(now))
}

/// Whether it is known, without a look, that nothing of a table's order of times is due.
pub fn is_nothing_due(table: Oid, now: Instant) -> bool {
    Order::of(table, "").and_then(|order| order.first(now)).is_some_and(|first| first.is_after(now))
}

/// Whether it is known, without a look, that nothing stands in a table of which only that matters (`Position::SOMEWHERE`).
pub fn is_known_to_be_empty(table: Oid, now: Instant) -> bool {
    Order::of(table, "").and_then(|order| order.first(now)) == Some(Position::END)
}

/// Looks whether anything stands there, of open transactions too.
pub fn is_empty(table: &Table, index: &CStr, now: Instant) -> bool {
    let Some(order) = Order::of(table.oid(), "") else { return false };
    let first = scan_first(order, now, |_| {
        let mut all = Index::open_to_all(table, index);
        all.seek(&[]);
        let found = all.next_not_gone();
        (if found { Position::SOMEWHERE } else { Position::END }, all.may_be_told())
    });
    first == Position::END
}

/// Looks for the first entry of an order, and has others know. `scan` goes from a position on (or from the very head); it says what it found,
/// and whether that may be told.
fn scan_first(order: Order, now: Instant, scan: impl FnOnce(Option<Position>) -> (Position, bool)) -> Position {
    let guard = order.begin_scan(now);
    let (first, may_be_told) = scan(guard.from);
    if may_be_told {
        guard.found(first, database_clock::now());
    }
    first
}

/// Where a row of `ready` stands in its queue.
pub fn position(waiting: &impl Record<Column>) -> Position {
    let plan_time: TimestampWithTimeZone = waiting.get_required(ready::PLAN_TIME);
    Position::new(waiting.get_required(ready::PRIORITY), plan_time, waiting.get_required(ready::EXECUTION_ID))
}

/// How the first column of an order is compared.
#[derive(Clone, Copy, PartialEq, Eq)]
pub enum By {
    /// It is a `timestamptz`.
    Time,
    /// It is a `bigint`.
    Number,
}

/// An index by time, or by number, of a table of which shared memory remembers where the first entry stands.
#[derive(Clone, Copy)]
pub struct RowOrder {
    /// The index.
    pub index: &'static CStr,
    /// Its first column.
    pub first: Column,
    /// What that is.
    pub by: By,
    /// Its second one, where it has an id: the first of many entries of one time is not sought among those that are gone.
    pub id: Option<Column>,
}

impl RowOrder {
    /// What is due from a position on, in an index that the caller opens.
    pub fn from<'t>(self, first: Position, now: Instant, open: impl FnOnce(&CStr) -> Index<'t>) -> InOrder<'t> {
        InOrder::from(self, open(self.index), first, Some(now))
    }

    fn position(self, row: &Table) -> Position {
        let first = match self.by {
            By::Time => row.get_required::<TimestampWithTimeZone>(self.first).into(),
            By::Number => row.get_required::<i64>(self.first),
        };
        self.id.map_or_else(|| Position::at(first), |id| Position::at_entry(first, row.get_required(id)))
    }

    fn at_least(self, first: i64) -> Condition {
        match self.by {
            By::Time => Condition::at_least(pg_sys::F_TIMESTAMPTZ_GE, first),
            By::Number => Condition::at_least(pg_sys::F_INT8GE, first),
        }
    }

    fn more_than(self, first: i64) -> Condition {
        match self.by {
            By::Time => Condition::more_than(pg_sys::F_TIMESTAMPTZ_GT, first),
            By::Number => Condition::more_than(pg_sys::F_INT8GT, first),
        }
    }

    fn equal(self, first: i64) -> Condition {
        match self.by {
            By::Time => Condition::equal(pg_sys::F_TIMESTAMPTZ_EQ, first),
            By::Number => Condition::equal(pg_sys::F_INT8EQ, first),
        }
    }
}

/// Looks where the first entry of an order stands; `None` where that is not remembered.
pub fn first_entry(table: &Table, by: RowOrder, now: Instant) -> Option<Position> {
    let order = Order::of(table.oid(), "")?;
    Some(scan_first(order, now, |known| {
        let index = Index::open_to_all(table, by.index);
        let mut all = InOrder::from(by, index, known.unwrap_or(Position::START), None);
        let first = if all.next(Index::next_not_gone) { by.position(table) } else { Position::END };
        (first, all.index.may_be_told())
    }))
}

/// Looks from where on an entry of an order of times may be due; `None` where there is none.
pub fn first_due(table: &Table, by: RowOrder, now: Instant) -> Option<Position> {
    let first = first_entry(table, by, now).unwrap_or(Position::START);
    (!first.is_after(now)).then_some(first)
}

/// The entries of an order from a position on, up to a time or all.
pub struct InOrder<'t> {
    index: Index<'t>,
    by: RowOrder,
    until: Option<Condition>,
    /// Behind which time or number to go on, when those that have the same have come.
    rest: Option<i64>,
}

impl<'t> InOrder<'t> {
    fn from(by: RowOrder, mut index: Index<'t>, position: Position, until: Option<Instant>) -> InOrder<'t> {
        let until = until.map(due);
        let (_, first, id) = position.parts();
        let among_equals = by.id.is_some() && id.as_bytes().iter().any(|byte| *byte != 0);
        if among_equals {
            index.seek(&[by.equal(first), Condition::at_least(pg_sys::F_UUID_GE, id)]);
        } else {
            seek(&mut index, by.at_least(first), until);
        }
        InOrder { index, by, until, rest: among_equals.then_some(first) }
    }

    /// Goes on to the next by a `step` of the index; false at the end.
    pub fn next(&mut self, step: impl Fn(&mut Index<'t>) -> bool) -> bool {
        loop {
            if step(&mut self.index) {
                return true;
            }
            let Some(first) = self.rest.take() else { return false };
            seek(&mut self.index, self.by.more_than(first), self.until);
        }
    }
}

fn seek(index: &mut Index, from: Condition, until: Option<Condition>) {
    match until {
        Some(until) => index.seek_between(from, until),
        None => index.seek(&[from]),
    }
}

/// How many entries a session takes before it looks again where the first one is: a look costs about as much as to take one. (An odd
/// number, so that who takes from two queues in turn looks at both.)
const BETWEEN_LOOKS: usize = 61;

thread_local! {
    /// How many this session has taken since it looked.
    static TAKEN: Cell<usize> = const { Cell::new(BETWEEN_LOOKS) };
}

/// To be said when this session has taken so many.
pub fn took(entries: usize) {
    TAKEN.set(TAKEN.get().saturating_add(entries));
}

/// Before which position there is nothing in a queue, for those who begin to look now.
pub fn first_position(waiting: &Table, queue: &str, now: Instant) -> Option<Position> {
    let order = Order::of(waiting.oid(), queue)?;
    if TAKEN.get() < BETWEEN_LOOKS {
        if let Some(first) = order.steady(now) {
            return Some(first);
        }
    }
    let first = scan_first(order, now, |known| {
        let mut all = Waiting::from(Index::open_to_all(waiting, c"ready_order"), queue, known);
        let first = if all.next(Index::next_not_gone) { position(waiting) } else { Position::END };
        (first, all.index.may_be_told())
    });
    TAKEN.set(0);
    Some(first)
}

/// The entries of a queue in the order of claiming, from a position on.
pub struct Waiting<'t> {
    index: Index<'t>,
    of_queue: Condition,
    /// The position, and which entries after it are to be sought next.
    rest: Option<(Position, Part)>,
}

/// Entries that come after a position: those of its priority and a later plan time, then those of a lower priority.
#[derive(Clone, Copy)]
enum Part {
    Later,
    Lower,
}

impl<'t> Waiting<'t> {
    pub fn from(mut index: Index<'t>, queue: &str, position: Option<Position>) -> Waiting<'t> {
        let of_queue = Condition::equal(pg_sys::F_TEXTEQ, queue);
        let Some(position) = position else {
            index.seek(&[of_queue]);
            return Waiting { index, of_queue, rest: None };
        };
        let (priority, plan_time, id) = position.parts();
        index.seek(&[
            of_queue,
            Condition::equal(pg_sys::F_INT4EQ, priority),
            Condition::equal(pg_sys::F_TIMESTAMPTZ_EQ, plan_time),
            Condition::at_least(pg_sys::F_UUID_GE, id),
        ]);
        Waiting { index, of_queue, rest: Some((position, Part::Later)) }
    }

    /// Goes on to the next by a `step` of the index; false at the end.
    pub fn next(&mut self, step: impl Fn(&mut Index<'t>) -> bool) -> bool {
        loop {
            if step(&mut self.index) {
                return true;
            }
            let Some((position, part)) = self.rest.take() else { return false };
            let (priority, plan_time, _) = position.parts();
            match part {
                Part::Later => {
                    self.index.seek(&[
                        self.of_queue,
                        Condition::equal(pg_sys::F_INT4EQ, priority),
                        Condition::more_than(pg_sys::F_TIMESTAMPTZ_GT, plan_time),
                    ]);
                    self.rest = Some((position, Part::Lower));
                }
                Part::Lower => self.index.seek(&[self.of_queue, Condition::less_than(pg_sys::F_INT4LT, priority)]),
            }
        }
    }
}
