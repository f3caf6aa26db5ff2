//! The report page and the timeline: what is on them, that parsers read them, how large they are.
#![allow(clippy::unwrap_used, clippy::expect_used, clippy::panic, clippy::wildcard_enum_match_arm)]

mod document;
mod golden;
mod hostile;
mod lists;
mod page;
mod properties;
mod sample;
mod sizes;
mod timeline;
