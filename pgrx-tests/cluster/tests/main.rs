//! Every file here is a module of one test binary; see `pgrx-tests/README.md` for what belongs here.

#![allow(clippy::unwrap_used, clippy::expect_used, clippy::panic)]

mod concurrency;
mod copies;
mod crash;
mod crash_load;
mod databases;
mod drops;
mod dumps;
mod edits;
mod encodings;
mod error_page;
mod examples;
mod extension;
mod firing;
mod harness;
mod heads;
mod hostile;
mod hostile_users;
mod idle;
mod install;
mod interleaving;
mod isolation;
mod lease_contention;
mod lease_crash;
mod lease_frozen;
mod lease_guess;
mod lease_rows;
mod lease_tables;
mod log_jobs;
mod logs;
mod notify_jobs;
mod obstruction;
mod pages;
mod poison;
mod processes;
mod programmes;
mod reference;
mod roles;
mod settings;
mod skips;
mod standby;
mod upgrade;
mod upgrade_rights;
mod worker;
mod worker_role;
