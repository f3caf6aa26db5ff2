//! `report`, `timeline`: what became of plan times, to look at.

use pgrx::datum::TimestampWithTimeZone;
use pgrx::prelude::*;
use scheduler_core::report as drawn;

use crate::guc;
use crate::pg::convert::{self, required};
use crate::pg::error::{or_raise, Failure, Outcome};
use crate::pg::utf8_text::Text;
use crate::pg::zone::ServerZone;
use crate::pg::{as_owner, role, session};
use crate::report::{self, Request};
use crate::store::database_clock;
use crate::store::shard;

/// What is asked for, and the zone of its labels; `22004`, `22008`, `22023`.
fn request(
    from_time: Option<TimestampWithTimeZone>,
    to_time: Option<TimestampWithTimeZone>,
    time_zone: Option<Text>,
) -> Outcome<(Request, ServerZone)> {
    let (from, to) = convert::range(from_time, to_time)?;
    let time_zone = time_zone.map_or_else(guc::time_zone, String::from);
    let zone = ServerZone::find(&time_zone)?;
    Ok((Request { from, to, now: database_clock::now(), time_zone, reader: role::caller() }, zone))
}

#[pg_extern(schema = "sched", volatile, parallel_unsafe, name = "report")]
fn report_page(
    from_time: default!(Option<TimestampWithTimeZone>, "sched.now() - '24:00:00'::interval"),
    to_time: default!(Option<TimestampWithTimeZone>, "sched.now() + '24:00:00'::interval"),
    schedule_like: default!(Option<Text>, "'%'"),
    time_zone: default!(Option<Text>, "NULL"),
) -> String {
    or_raise((|| {
        let (request, zone) = request(from_time, to_time, time_zone)?;
        let like = String::from(required("schedule_like", schedule_like)?);
        let report = as_owner(|owner| report::report(owner, &request, &like));
        Ok(drawn::page(&report, &zone))
    })())
}

#[pg_extern(schema = "sched", volatile, parallel_unsafe)]
fn timeline(
    schedule_name: Option<Text>,
    from_time: default!(Option<TimestampWithTimeZone>, "sched.now() - '01:00:00'::interval"),
    to_time: default!(Option<TimestampWithTimeZone>, "sched.now() + '01:00:00'::interval"),
    time_zone: default!(Option<Text>, "NULL"),
) -> SetOfIterator<'static, String> {
    let lines = or_raise((|| {
        let name = convert::name("schedule_name", schedule_name)?;
        let (request, zone) = request(from_time, to_time, time_zone)?;
        let found = as_owner(|owner| report::schedule(owner, &request, &name));
        let unknown = || Failure::unknown("schedule", &name, "Look for its name in the view sched.schedules.");
        let (schedule, view) = found.ok_or_else(unknown)?;
        session(|session| shard::require_schedule(session, &name))?;
        Ok(drawn::timeline(&schedule, &view, &zone))
    })());
    SetOfIterator::new(lines)
}
