//! Every file here is a module of one test binary; see `pgrx-tests/README.md` for what belongs here.

#![allow(clippy::unwrap_used, clippy::expect_used, clippy::panic)]

mod concurrency;
mod crash;
mod edits;
mod encodings;
mod examples;
mod firing;
mod harness;
mod install;
mod interleaving;
mod isolation;
mod lease_contention;
mod lease_crash;
mod lease_frozen;
mod lease_tables;
mod programmes;
mod readme;
mod skips;
mod worker;
