//! A page and a text that show what became of each plan time, drawn from plain rows.
//!
//! Whoever calls this has asked the database; nothing here does. Times are drawn in the zone that comes as an argument.
//!
//! - `rows` is what comes in, `user_text` what somebody wrote, `verdict` what became of a plan time.
//! - `wall` reads instants in the zone, `axis` gives them a place, `wording` has the words.
//! - `detail` chooses what is drawn by itself and what is counted.
//! - `marks` draws a row, `grid` the table of rows, `lateness`, `load`, `side` and `problems` what is around it, and
//!   `page` puts them together.
//! - `timeline` draws one schedule for a terminal.

mod axis;
mod detail;
mod frame;
mod grid;
mod lateness;
mod load;
mod marks;
mod page;
mod problems;
mod rows;
mod side;
mod timeline;
mod user_text;
mod verdict;
mod wall;
mod wording;

pub use crate::health::Severity;
pub use page::page;
pub use rows::{
    lateness_class, Alert, Attempt, Cause, Health, LatenessColumn, LoadHour, Mark, Report, Run, Schedule, View,
    LATENESS_BOUNDS, LATENESS_CLASSES,
};
pub use timeline::timeline;
pub use user_text::UserText;
pub use verdict::Verdict;
