//! The decision core: what a schedule that is due calls for. Tables of single decisions, lives of a schedule in steps, and a
//! comparison with a model that enumerates every plan.
#![allow(
    clippy::unwrap_used,
    clippy::expect_used,
    clippy::panic,
    clippy::wildcard_enum_match_arm,
    reason = "test code"
)]

mod after_runs;
mod arm;
mod clocks;
mod fire;
mod model;
mod properties;
mod skips;
mod support;
