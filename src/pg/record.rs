//! A row that gives a value for a column.

use std::fmt::Display;

use pgrx::FromDatum;
use scheduler_core::Instant;

use crate::pg::convert;
use crate::pg::error::{raise, Failure};

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
