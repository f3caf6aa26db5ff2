//! Jobs: as a session remembers them (`job_cache`) where it can hear of every change, else read by a statement (`sql`).

use crate::pg::Owner;
use crate::store::fast_path;

pub mod job_cache;
mod sql;

pub use sql::{
    cancel_pending, delete, hand_over, is_delivered_when_fired, lock, lock_definition, lock_of_pair, lock_own,
    long_payload, names_near, read, read_and_keep, reroute, set_pair, share, user, write, Definition, Job, Written,
};

/// The job of this name, as this session knows it (`job_cache::find`).
pub fn find(owner: &Owner, name: &str) -> Option<Job> {
    let known = fast_path::open(owner.schema, |schema| job_cache::find(schema, name));
    known.unwrap_or_else(|| read(owner.session(), name))
}
