//! Every file here is a module of one test binary; see `pgrx-tests/README.md` for what belongs here.

#![allow(clippy::unwrap_used, clippy::expect_used, clippy::panic)]

mod concurrency;
mod crash;
mod edits;
mod examples;
mod firing;
mod harness;
mod isolation;
mod readme;
mod worker;
