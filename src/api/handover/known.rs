//! The schedulers that can be imported from, by their names.

use crate::pg::convert;
use crate::pg::error::{Failure, Outcome};

use super::pg_cron::PgCron;
use super::source::Source;

const PG_CRON: &str = "pg_cron";

/// The scheduler of this name; `22023`.
pub fn known(name: &str) -> Outcome<&'static dyn Source> {
    match name {
        PG_CRON => Ok(&PgCron),
        _ => Err(Failure::invalid(
            format!("unknown source \"{}\"", convert::shown(name)),
            format!("Use one of: '{PG_CRON}'."),
        )),
    }
}
