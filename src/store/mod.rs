//! The only place that talks SQL and touches tables. One function = one statement, whose text is in `sql/query/`; what leases do all day
//! goes row by row as well (`ledger`, `rows`, `table`).

pub mod ahead;
pub mod catalog;
pub mod change;
pub mod deadline;
pub mod done;
pub mod draw;
pub mod dropped;
pub mod due;
pub mod enqueue;
pub mod exclusive;
pub mod execution;
pub mod fire;
pub mod grant;
pub mod head;
pub mod history;
pub mod home;
pub mod ids;
pub mod job;
pub mod key_lock;
pub mod lease;
pub mod ledger;
mod names;
pub mod notify;
pub mod patience;
pub mod rebuild;
pub mod role;
pub mod rows;
pub mod schedule;
pub mod schedule_bulk;
pub mod session;
pub mod skip;
pub mod snapshot;
mod table;
pub mod timer;
pub mod version;
pub mod watch;

pub use ledger::Ledger;
pub use session::{as_owner, session, Owner, Session};
