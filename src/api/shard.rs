//! `bucket`, `buckets`, `set_buckets`, `drop_elsewhere`: which scopes are this database's, where several share them.

use pgrx::prelude::*;

use crate::dispatch;
use crate::pg::error::{or_raise, Failure};
use crate::pg::multirange::Multirange;
use crate::pg::utf8_text::Text;
use crate::pg::{acknowledge_durably, convert, session};
use crate::shmem::wakeup;
use crate::store::database_clock;
use crate::store::execution::ids;
use crate::store::{exclusive_lock, job, shard};

use crate::api::schedule;

#[pg_extern(schema = "sched", immutable, strict, parallel_safe)]
pub fn bucket(scope_kind: Text, scope_id: Text) -> i32 {
    i32::from(ids::bucket(&scope_kind, &scope_id))
}

#[pg_extern(schema = "sched", stable, parallel_unsafe)]
pub fn buckets() -> Multirange {
    Multirange(session(shard::ranges))
}

#[pg_extern(schema = "sched", volatile, parallel_unsafe)]
fn set_buckets(buckets: default!(Option<Multirange>, "NULL")) {
    or_raise((|| {
        let buckets = buckets.unwrap_or_else(|| Multirange("{[0,1024)}".to_owned())).0;
        session(|session| {
            if !shard::are_buckets(session, &buckets) {
                return Err(Failure::invalid(
                    format!("buckets must be within 0 to 1023, not {}", convert::shown(&buckets)),
                    "Pass ranges such as '{[0,256)}'; NULL means all, '{}' none.",
                ));
            }
            Ok(())
        })?;
        // SAFETY: inside a transaction; it raises where that may write nothing.
        unsafe { pg_sys::PreventCommandIfReadOnly(c"sched.set_buckets()".as_ptr()) }
        exclusive_lock::lock_all();
        session(|session| {
            let mut queues = shard::set(session, &buckets);
            // A job may have become another kind since.
            queues.extend(job::reroute(session, None));
            dispatch::notify(session, queues);
        });
        wakeup::at_commit(database_clock::now());
        acknowledge_durably();
        Ok(())
    })());
}

#[pg_extern(schema = "sched", volatile, parallel_unsafe)]
fn drop_elsewhere() -> i64 {
    shard::lock();
    let now = database_clock::now();
    session(|session| {
        let schedules = shard::schedules_elsewhere(session);
        for schedule_id in &schedules {
            pgrx::check_for_interrupts!();
            schedule::delete(session, *schedule_id, false);
        }
        for id in shard::waiting_elsewhere(session) {
            pgrx::check_for_interrupts!();
            dispatch::cancel(session, id, now);
        }
        i64::try_from(schedules.len()).unwrap_or(i64::MAX)
    })
}
