//! The only place that talks SQL. One function = one statement; the texts are in `sql/query/`.

pub mod execution;
pub mod history;
pub mod job;
pub mod key_lock;
pub mod lease;
pub mod rebuild;
pub mod role;
pub mod schedule;
pub mod schedule_bulk;
pub mod session;
pub mod skip;
pub mod timer;

pub use session::{session, Session};
