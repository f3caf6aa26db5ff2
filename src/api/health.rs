//! `health`, `healthy`.

use pgrx::datum::{Interval, TimestampWithTimeZone};
use pgrx::prelude::*;
use scheduler_core::health::Severity;
use scheduler_core::Keyword;

use crate::health::{self, Health};
use crate::pg::convert::{self, required, Zero};
use crate::pg::error::or_raise;
use crate::pg::{as_owner, role};

use crate::api::result::TableIterator;
use crate::store::database_clock;

fn look() -> Health {
    let reader = role::caller();
    as_owner(|owner| health::look(owner, reader, database_clock::now()))
}

#[pg_extern(schema = "sched", volatile, parallel_unsafe, name = "health")]
#[allow(clippy::type_complexity)]
fn health_rows() -> TableIterator<
    'static,
    (
        name!(component, &'static str),
        name!(ok, bool),
        name!(severity, &'static str),
        name!(since, Option<TimestampWithTimeZone>),
        name!(message, String),
        name!(hint, Option<String>),
    ),
> {
    TableIterator::new(look().findings.into_iter().map(|found| {
        (
            found.component.as_str(),
            found.severity == Severity::Ok,
            found.severity.as_str(),
            found.since.map(convert::timestamp),
            found.message,
            found.hint,
        )
    }))
}

#[pg_extern(schema = "sched", volatile, parallel_unsafe)]
fn healthy(max_lateness: default!(Option<Interval>, "'1 minute'")) -> bool {
    or_raise((|| {
        let most = convert::duration("max_lateness", required("max_lateness", max_lateness)?, Zero::Allowed)?;
        let health = look();
        Ok(health.lateness <= most && health.findings.iter().all(|found| found.severity != Severity::Critical))
    })())
}
