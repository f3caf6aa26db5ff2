//! `recent`: the newest executions that have ended for good.

use pgrx::datum::{TimestampWithTimeZone, Uuid};
use pgrx::prelude::*;

use crate::pg::convert::{self, required};
use crate::pg::error::or_raise;
use crate::pg::jsonb::Jsonb;
use crate::pg::record::Record;
use crate::pg::session::Row;
use crate::pg::utf8_text::Text;
use crate::pg::{as_owner, oid_cache, role};
use crate::store::execution::history;

use crate::api::job::at_least_one;
use crate::api::result::TableIterator;

#[pg_extern(schema = "sched", volatile, parallel_unsafe)]
#[allow(clippy::type_complexity)]
fn recent(
    job_name: default!(Option<Text>, "NULL"),
    max_rows: default!(Option<i32>, "20"),
) -> TableIterator<
    'static,
    (
        name!(id, Uuid),
        name!(job_name, String),
        name!(scope_kind, String),
        name!(scope_id, String),
        name!(plan_time, TimestampWithTimeZone),
        name!(queue, String),
        name!(status, String),
        name!(attempt, i32),
        name!(max_attempts, i32),
        name!(runner_id, Option<String>),
        name!(started_at, Option<TimestampWithTimeZone>),
        name!(finished_at, Option<TimestampWithTimeZone>),
        name!(duration_ms, Option<i64>),
        name!(rows_affected, Option<i64>),
        name!(result, Option<Jsonb>),
        name!(error_code, Option<String>),
        name!(error_msg, Option<String>),
        name!(origin, String),
        name!(schedule_name, Option<String>),
    ),
> {
    let rows = or_raise((|| {
        let job_name = job_name.map(|name| convert::name("job_name", Some(name))).transpose()?;
        let limit = at_least_one("max_rows", required("max_rows", max_rows)?)?;
        let reader = role::caller();
        let row = |row: &Row| {
            (
                row.get_required("id"),
                row.get_required("job_name"),
                row.get_required("scope_kind"),
                row.get_required("scope_id"),
                row.get_required("plan_time"),
                row.get_required("queue"),
                row.get_required("status"),
                row.get_required("attempt"),
                row.get_required("max_attempts"),
                row.get("runner_id"),
                row.get("started_at"),
                row.get("finished_at"),
                row.get("duration_ms"),
                row.get("rows_affected"),
                row.get("result"),
                row.get("error_code"),
                row.get("error_msg"),
                row.get_required("origin"),
                row.get("schedule_name"),
            )
        };
        Ok(as_owner(|owner| {
            let reads_all = role::reads_everything(reader, oid_cache::relation(owner.schema, c"monitor"));
            let found = history::recent(owner.session(), job_name, limit, reader, reads_all);
            found.iter().map(|one| row(&one)).collect::<Vec<_>>()
        }))
    })());
    TableIterator::new(rows)
}
