//! `next_time`, `preview`, `validate`: a clock's plan times without a schedule.

use pgrx::datum::{Interval, Timestamp, TimestampWithTimeZone};
use pgrx::prelude::*;
use scheduler_core::clock::lint;
use scheduler_core::Instant;

use crate::guc;
use crate::pg::convert::{self, required};
use crate::pg::error::{or_raise, raise, Failure, Outcome};
use crate::pg::utf8_text::Text;
use crate::pg::zone::{offset_read_backwards, ServerZone};

use crate::api::result::TableIterator;
use crate::store::database_clock;

/// preview answers at most this many rows.
const MAX_PREVIEW: i32 = 10_000;

fn zone_or_setting(time_zone: Option<Text>) -> Outcome<ServerZone> {
    ServerZone::find(&time_zone.map_or_else(guc::time_zone, String::from))
}

fn anchor_or_epoch(anchor: Option<TimestampWithTimeZone>) -> Outcome<Instant> {
    Ok(convert::optional_instant("anchor", anchor)?.unwrap_or(Instant::UNIX_EPOCH))
}

#[pg_extern(schema = "sched", stable, parallel_safe)]
fn next_time(
    clock: Option<Text>,
    after: default!(Option<TimestampWithTimeZone>, "sched.now()"),
    time_zone: default!(Option<Text>, "NULL"),
    anchor: default!(Option<TimestampWithTimeZone>, "'epoch'"),
) -> Option<TimestampWithTimeZone> {
    or_raise((|| {
        let (Some(clock), Some(after)) = (clock, after) else { return Ok(None) };
        let clock = convert::new_clock(&clock)?;
        let after = convert::instant("after", after)?;
        let zone = zone_or_setting(time_zone)?;
        let next = clock.bind(&zone, anchor_or_epoch(anchor)?).next_after(after);
        Ok(next.map(convert::timestamp))
    })())
}

#[pg_extern(schema = "sched", stable, parallel_safe)]
#[allow(clippy::type_complexity)]
fn preview(
    clock: Option<Text>,
    time_zone: default!(Option<Text>, "NULL"),
    after: default!(Option<TimestampWithTimeZone>, "sched.now()"),
    n: default!(Option<i32>, "10"),
    anchor: default!(Option<TimestampWithTimeZone>, "'epoch'"),
) -> TableIterator<
    'static,
    (
        name!(plan_time, TimestampWithTimeZone),
        name!(local_time, Option<Timestamp>),
        name!(utc_offset, Interval),
        name!(note, Option<String>),
    ),
> {
    let rows = or_raise((|| {
        let (Some(clock), Some(after)) = (clock, after) else { return Ok(Vec::new()) };
        let clock = convert::new_clock(&clock)?;
        let after = convert::instant("after", after)?;
        let zone = zone_or_setting(time_zone)?;
        let n = required("n", n)?;
        if !(0..=MAX_PREVIEW).contains(&n) {
            return Err(Failure::invalid(
                format!("n must be from 0 to {MAX_PREVIEW}, not {n}"),
                "Ask for the times after the last one that you have.",
            ));
        }
        let timeline = clock.bind(&zone, anchor_or_epoch(anchor)?);
        let plans = std::iter::successors(timeline.next_after(after), |plan| timeline.next_after(*plan));
        let rows: Vec<_> = plans
            .take(usize::try_from(n).unwrap_or(0))
            .map(|plan| {
                let (local, offset) = timeline.local_at(plan);
                (
                    convert::timestamp(plan),
                    Timestamp::try_from(local).ok(),
                    convert::interval(i64::from(offset) * 1_000_000),
                    timeline.dst_note(plan).map(|note| note.to_string()),
                )
            })
            .collect();
        Ok(rows)
    })());
    TableIterator::new(rows)
}

/// The code, message and hint of what is probably not meant by a zone.
fn zone_warning(name: &str, zone: ServerZone) -> Option<(String, String, String)> {
    let seconds = offset_read_backwards(name, zone)?;
    let (hours, minutes) = (seconds.abs() / 3600, seconds.abs() / 60 % 60);
    let side = if seconds < 0 { "behind" } else { "ahead of" };
    let message = format!(
        "time zone \"{name}\" is a POSIX offset, which counts westwards: its clock is {hours}:{minutes:02} {side} UTC"
    );
    let hint = "Use a name of the view pg_timezone_names, for example 'Europe/Berlin'.";
    Some(("posix_offset".to_owned(), message, hint.to_owned()))
}

#[pg_extern(schema = "sched", stable, parallel_safe)]
#[allow(clippy::type_complexity)]
fn validate(
    clock: Option<Text>,
    time_zone: default!(Option<Text>, "NULL"),
) -> TableIterator<'static, (name!(severity, String), name!(code, String), name!(message, String), name!(hint, String))>
{
    let text = or_raise(required("clock", clock));
    let parsed = convert::new_clock(&text);
    if let Err(failure) = &parsed {
        if failure.code == PgSqlErrorCode::ERRCODE_PROGRAM_LIMIT_EXCEEDED {
            raise(failure.clone());
        }
    }
    let name = time_zone.map_or_else(guc::time_zone, String::from);
    let zone = ServerZone::find(&name);
    let rows: Vec<_> = match (parsed, zone) {
        (Ok(clock), Ok(zone)) => lint(&clock, &text, &zone, database_clock::now())
            .into_iter()
            .map(|warning| (warning.code.to_owned(), warning.message, warning.hint))
            .chain(zone_warning(&name, zone))
            .map(|(code, message, hint)| ("warning".to_owned(), code, message, hint))
            .collect(),
        (parsed, zone) => parsed
            .err()
            .into_iter()
            .chain(zone.err())
            .map(|failure| ("error".to_owned(), failure.sqlstate(), failure.message, failure.hint))
            .collect(),
    };
    TableIterator::new(rows)
}
