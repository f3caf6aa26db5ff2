//! The run that this process is on, for `sched.this_run()`. It stands in the process' own memory: no SQL can change it.

use std::cell::RefCell;

use pgrx::datum::{TimestampWithTimeZone, Uuid};

use crate::pg::jsonb::Jsonb;

/// A run that goes on.
#[derive(Clone)]
pub struct CurrentRun {
    /// `None` in `sched.test_job`.
    pub execution_id: Option<Uuid>,
    pub job_name: String,
    pub schedule_name: Option<String>,
    pub scope_kind: Option<String>,
    pub scope_id: Option<String>,
    pub plan_time: TimestampWithTimeZone,
    pub attempt: i32,
    pub payload: Jsonb,
}

thread_local! {
    static CURRENT: RefCell<Option<CurrentRun>> = const { RefCell::new(None) };
}

/// The run that this process is on, if it is on one.
pub fn current() -> Option<CurrentRun> {
    CURRENT.with_borrow(Clone::clone)
}

/// While it lives, the process is on a run.
pub struct OnRun(Option<CurrentRun>);

impl OnRun {
    pub fn begin(run: CurrentRun) -> OnRun {
        OnRun(CURRENT.replace(Some(run)))
    }
}

impl Drop for OnRun {
    fn drop(&mut self) {
        CURRENT.replace(self.0.take());
    }
}
