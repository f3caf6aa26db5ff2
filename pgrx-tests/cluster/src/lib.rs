//! What a test needs that no `#[pg_test]` can have: a server of its own, with the extension preloaded and its workers running,
//! that can be restarted, crashed and killed. Each test starts one (half a second), works on it through ordinary
//! connections, and drops it; it is stopped and removed then, whether the test passed, failed or was killed.
//!
//! A test never sleeps: it says what it waits for and for how long, see [`wait`].

// A harness fails a test by panicking, with a message that says what went wrong.
#![allow(clippy::unwrap_used, clippy::expect_used, clippy::panic)]

pub mod catalog;
pub mod celery;
mod clock;
pub mod cluster;
pub mod conn;
mod door;
mod environment;
mod guard;
pub mod pg_cron;
pub mod pgagent;
pub mod pooler;
pub mod proc;
pub mod random;
pub mod router;
pub mod scheduler;
pub mod sql_jobs;
#[path = "../../support/tables.rs"]
pub mod tables;
mod template;
pub mod wait;

pub use cluster::{Builder, Cluster, Shutdown};
pub use conn::{refusal, refused};
pub use door::door;
pub use environment::{as_server_user, bin, built, clusters, has_contrib, monitoring, python, repository, run};
pub use postgres::Client;
pub use wait::{stays, wait_for, wait_until};
