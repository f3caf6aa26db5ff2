//! Rows of our own tables without the executor: found by an index, inserted, updated and deleted through the table's access method,
//! as Postgres treats its catalogs.
//!
//! To start and end a plan costs more than what these statements do, and a lease is taken, kept and given back at a rate at which
//! that shows. What the executor does beside the row itself is done here as well: NOT NULL and CHECK (under a pinned search path),
//! every index, replica identity, read-only transactions, and what becomes of a row that somebody has changed meanwhile. What is not
//! done here makes `Table::open` answer `None`, and its caller runs the SQL statement instead: triggers, rules, row security,
//! inheritance, generated columns, columns that this room does not know.

mod index_scan;
pub mod layouts;
mod ordered_lookup;
mod page_sample;
mod relation;
mod seq_scan;
mod tuple_lock;
mod unique_keys;
mod visibility;
mod write;
mod writer;

pub use index_scan::{Condition, Index, KeyState, Keys};
pub use ordered_lookup::OrderedLookup;
pub use page_sample::PageSample;
pub use relation::{lock_to_write, LatestSnapshot, Layout, Sequence, Table};
pub use seq_scan::Scan;
pub use tuple_lock::TupleId;
pub use write::ModifyResult;
pub use writer::Workspace;
