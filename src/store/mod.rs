//! The only place that talks SQL. One function = one statement; the texts are in `sql/query/`.

pub mod change;
pub mod deadline;
pub mod execution;
pub mod history;
pub mod id;
pub mod job;
pub mod key_lock;
pub mod lease;
pub mod role;
pub mod schedule;
pub mod schedule_bulk;
pub mod session;
pub mod timer;

pub use session::{session, Session};
