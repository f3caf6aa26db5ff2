//! Clocks: when a schedule is due. A text is parsed once, bound to a zone and an anchor, and then asked.
//!
//! `docs/reference/clocks.md` has the exact rules, and shows them by example.
//!
//! - `definition` is what a text says: fields of the calendar, a grid of intervals, an instant, or never.
//! - `parse` reads a text, `error` says what is wrong with it, and `suggest` what it was meant to be.
//! - `cron` is our cron dialect around the `cron` crate, and the search in the calendar.
//! - `every` is the grid of intervals, `datetime` the date-times of `at` and `from`.
//! - `zone` is a wall clock with its gaps and overlaps.
//! - `timeline` puts a clock into a zone and finds plan times.
//! - `dst_note` and `lint` tell people what a clock does that they may not expect.

mod changes;
mod cron;
mod datetime;
mod definition;
mod dst_note;
mod error;
mod every;
mod lint;
mod parse;
mod pasted;
mod suggest;
mod text;
mod timeline;
pub mod zone;

pub use cron::field::Field;
pub use cron::Cron;
pub use datetime::{DateTime, LocalDisplay};
pub use definition::Clock;
pub use dst_note::DstNote;
pub use error::{ClockError, ErrorKind};
pub use every::interval::Interval;
pub use every::{Anchor, Every, RunEdge};
pub use lint::{lint, none_ahead, Lint};
pub use text::{LONGEST_NEW_TEXT, LONGEST_TEXT};
pub use timeline::Timeline;
