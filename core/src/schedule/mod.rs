//! What a schedule calls for: which of its plan times run, which are skipped and why, and what comes next.
//!
//! `batch` says how much of what is due one transaction fires. `plan_times` is what a schedule asks its clock, `policy` what its author chose. `catch_up` decides about plan times that
//! were missed, `plan` about a schedule that is armed and a timer that is due. `skipped_plans` are the ranges that did not run.

pub mod batch;
pub mod catch_up;
pub mod jitter;
pub mod plan;
pub mod plan_times;
pub mod policy;
pub mod skipped_plans;

pub use batch::{Bounds, Demand, MAX_PAYLOAD_BYTES, MOST_BYTES, MOST_CONTENDED};
pub use plan::{ArmEvent, Armed, Fired, Next, Progress};
pub use plan_times::PlanTimes;
pub use policy::{CatchUp, Overlap, Ownership, Policy, Rearm};
pub use skipped_plans::{Skip, SkipReason};
