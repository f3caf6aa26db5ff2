//! The only place that talks SQL. One function = one statement; the texts are in `sql/query/`.

pub mod execution;
pub mod grant;
pub mod history;
pub mod home;
pub mod id;
pub mod job;
pub mod key_lock;
pub mod lease;
pub mod role;
pub mod schedule;
pub mod schedule_bulk;
pub mod session;
pub mod timer;
pub mod version;

pub use session::{session, Session};
