//! What touches PostgreSQL itself: the SPI session of the extension's owner, roles and search path, look-ups in the catalogs, messages of
//! invalidation, errors, types, and what differs between its versions. It knows nothing of schedules and leases.

mod allocator;
pub mod array;
pub mod by_subtransaction;
pub mod catch;
pub mod commit_deadline;
pub mod compat;
pub mod convert;
pub mod database_setting;
pub mod error;
pub mod error_context;
pub mod error_room;
mod indexes_only;
pub mod invalidation;
pub mod jsonb;
pub mod latch;
pub mod login_rows;
pub mod memory;
pub mod multirange;
pub mod name_lock;
pub mod objects_version;
pub mod oid_cache;
pub mod parse;
pub mod record;
pub mod relation_lock;
pub mod role;
pub mod role_argument;
pub mod run_settings;
pub mod search_path;
pub mod session;
pub mod shared_text;
pub mod sql_type;
pub mod subtransaction;
pub mod syscache;
pub mod time_limit;
pub mod utf8_text;
pub mod zone;

pub use session::{acknowledge_durably, as_owner, session, Owner, Session};
