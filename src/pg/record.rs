//! A row, whoever brought it: a statement, of which a column is asked for by its name, or a table itself, which has it by its number. What decodes
//! a row of one of our tables asks for a `Column`, which both understand.

use std::fmt::{self, Display, Formatter};

use pgrx::FromDatum;
use scheduler_core::Instant;

use crate::pg::convert;
use crate::pg::error::{raise, Failure};

/// A column of one of our tables.
#[derive(Clone, Copy)]
pub struct Column {
    /// Its number in the table (1-based).
    pub number: usize,
    /// Its name there, and in statements that return it.
    pub name: &'static str,
}

impl Column {
    /// Its place in a row of values.
    pub const fn index(self) -> usize {
        self.number - 1
    }
}

impl Display for Column {
    fn fmt(&self, formatter: &mut Formatter<'_>) -> fmt::Result {
        formatter.write_str(self.name)
    }
}

/// A row that gives a value for a column.
pub trait Record<Key: Copy + Display> {
    /// The value of a column; `None` is NULL.
    fn get<T: FromDatum>(&self, column: Key) -> Option<T>;

    /// A text of which a part may have been cut off within a character, or that was never one.
    fn lossy(&self, column: Key) -> Option<String>;

    /// What the schema says is never NULL.
    fn get_required<T: FromDatum>(&self, column: Key) -> T {
        match self.get(column) {
            Some(value) => value,
            None => raise(Failure::internal(format!("column {column} of a scheduler table is NULL"))),
        }
    }

    /// A time which the schema says is never NULL.
    fn get_required_instant(&self, column: Key) -> Instant {
        convert::stored_instant(self.get_required(column))
    }

    /// A time that a superuser's hand may have written.
    fn get_saturated(&self, column: Key) -> Option<Instant> {
        self.get(column).map(convert::saturated)
    }

    /// The same of a time which the schema says is never NULL.
    fn get_required_saturated(&self, column: Key) -> Instant {
        convert::saturated(self.get_required(column))
    }
}
