//! `latest_plan`, `due_plans`, `attempts_since_success`: what an application's own tick asks the ledger.

use pgrx::datum::{Interval, TimestampWithTimeZone};
use pgrx::prelude::*;
use scheduler_core::schedule::{catch_up, CatchUp};
use scheduler_core::Instant;

use crate::dispatch::catch_up_of;
use crate::guc;
use crate::pg::convert::{self, required, Zero};
use crate::pg::error::{or_raise, Failure, Outcome};
use crate::pg::utf8_text::Text;
use crate::pg::zone::ServerZone;
use crate::pg::{role, session, Session};
use crate::store::database_clock;
use crate::store::execution::history;
use crate::store::shard;

use crate::api::result::TableIterator;
use crate::api::schedule::max_plans;
use crate::api::schedule_runs::refuse_counting_from_runs;
use crate::api::sql_support::scope_key;

/// A scope's key, and the newest plan of it that the caller may see; `42501` where all are other roles'. Somebody may have put some there
/// before the job was defined: those are neither counted nor offered, and keep nobody from his own.
fn scope(
    session: &Session,
    names: &[String; 3],
    caller: pg_sys::Oid,
) -> Outcome<(pgrx::datum::Uuid, Option<history::LatestPlan>)> {
    shard::require_to_read(session, &names[1], &names[2])?;
    let key = scope_key(&names[0], &names[1], &names[2]);
    let latest = history::latest_plan(session, key, database_clock::now(), caller);
    if latest.is_none() && history::scope_taken(session, key) {
        return Err(Failure::not_owner("the executions of job", &names[0]));
    }
    Ok((key, latest))
}

/// A job and a scope; `22004`, `22023`.
pub fn names(job_name: Option<Text>, scope_kind: Option<Text>, scope_id: Option<Text>) -> Outcome<[String; 3]> {
    Ok([
        convert::name("job_name", job_name)?,
        convert::name("scope_kind", scope_kind)?,
        convert::name("scope_id", scope_id)?,
    ])
}

#[pg_extern(schema = "sched", volatile, parallel_unsafe)]
#[allow(clippy::type_complexity)]
fn latest_plan(
    job_name: Option<Text>,
    scope_kind: default!(Option<Text>, "'global'"),
    scope_id: default!(Option<Text>, "'global'"),
) -> TableIterator<
    'static,
    (
        name!(plan_time, TimestampWithTimeZone),
        name!(status, String),
        name!(attempt, i32),
        name!(max_attempts, i32),
        name!(next_retry_at, Option<TimestampWithTimeZone>),
        name!(retry_eligible, bool),
    ),
> {
    let row = or_raise((|| {
        let names = names(job_name, scope_kind, scope_id)?;
        let caller = role::caller();
        session(|session| scope(session, &names, caller)).map(|(_, latest)| latest)
    })());
    TableIterator::new(row.into_iter().map(|latest| {
        (
            latest.plan_time,
            latest.status,
            latest.attempt,
            latest.max_attempts,
            latest.next_retry_at,
            latest.retry_eligible,
        )
    }))
}

#[pg_extern(schema = "sched", volatile, parallel_unsafe)]
fn attempts_since_success(
    job_name: Option<Text>,
    scope_kind: default!(Option<Text>, "'global'"),
    scope_id: default!(Option<Text>, "'global'"),
) -> i64 {
    or_raise((|| {
        let names = names(job_name, scope_kind, scope_id)?;
        let caller = role::caller();
        session(|session| {
            let (key, _) = scope(session, &names, caller)?;
            Ok(history::attempts_since_success(session, key, caller))
        })
    })())
}

#[pg_extern(schema = "sched", volatile, parallel_unsafe)]
#[allow(clippy::too_many_arguments)]
fn due_plans(
    job_name: Option<Text>,
    clock: Option<Text>,
    scope_kind: default!(Option<Text>, "'global'"),
    scope_id: default!(Option<Text>, "'global'"),
    catch_up: default!(Option<Text>, "'latest_only'"),
    catch_up_window: default!(Option<Interval>, "NULL"),
    max_plans_per_tick: default!(Option<i32>, "100"),
    delay: default!(Option<Interval>, "'0'"),
    time_zone: default!(Option<Text>, "NULL"),
) -> SetOfIterator<'static, TimestampWithTimeZone> {
    let plans = or_raise((|| {
        let names = names(job_name, scope_kind, scope_id)?;
        let text = required("clock", clock)?;
        let clock = convert::new_clock(&text)?;
        refuse_counting_from_runs(&clock, &text)?;
        let zone = ServerZone::find(&time_zone.map_or_else(guc::time_zone, String::from))?;
        let query = DuePlansQuery {
            catch_up: catch_up_of(&required("catch_up", catch_up)?)?,
            window: convert::optional_duration("catch_up_window", catch_up_window, Zero::Refused)?,
            limit: max_plans(required("max_plans_per_tick", max_plans_per_tick)?)?,
            delay: convert::duration("delay", required("delay", delay)?, Zero::Allowed)?,
        };
        let timeline = clock.bind(&zone, Instant::UNIX_EPOCH);
        let caller = role::caller();
        session(|session| {
            let (key, newest) = scope(session, &names, caller)?;
            let newest = newest.map(|newest| convert::instant("plan_time", newest.plan_time)).transpose()?;
            Ok(offered(session, (key, caller), newest, &timeline, &query))
        })
    })());
    SetOfIterator::new(plans)
}

struct DuePlansQuery {
    catch_up: CatchUp,
    window: Option<i64>,
    limit: i32,
    delay: i64,
}

/// The plans that a tick should claim now, oldest first: of those in the ledger the caller's own, and new ones.
fn offered(
    session: &Session,
    (key, caller): (pgrx::datum::Uuid, pg_sys::Oid),
    newest: Option<Instant>,
    timeline: &scheduler_core::clock::Timeline<'_, ServerZone>,
    query: &DuePlansQuery,
) -> Vec<TimestampWithTimeZone> {
    let now = database_clock::now();
    let eligible = now.checked_add_micros(-query.delay).unwrap_or(Instant::MIN);
    let oldest = query.window.and_then(|window| eligible.checked_add_micros(-window)).unwrap_or(Instant::MIN);
    let Some(latest) = timeline.previous_at_or_before(eligible) else { return Vec::new() };
    // What retention deletes is older than it, and never the newest: such a plan counts as done. A newer one, which may be off the
    // clock's grid, says nothing of plans that retention has not reached.
    let reach = now.checked_add_micros(-guc::history_retention()).unwrap_or(Instant::MIN);
    let is_forgotten = |plan: Instant| plan < reach && newest.is_some_and(|newest| plan < newest);
    let known = |from, to, limit| history::claimable_plans(session, (key, caller), from, to, now, limit);
    match query.catch_up {
        CatchUp::LatestOnly | CatchUp::SkipMissed => {
            let late = query.catch_up == CatchUp::SkipMissed
                && catch_up::is_misfire(latest, query.delay, guc::misfire_grace(), now);
            if latest < oldest || late {
                Vec::new()
            } else if history::plan_exists(session, key, latest) || is_forgotten(latest) {
                known(latest, latest, 1)
            } else {
                vec![convert::timestamp(latest)]
            }
        }
        CatchUp::EveryPlan => {
            let mut plans = known(oldest, eligible, i64::from(query.limit));
            let room = usize::try_from(query.limit).unwrap_or(0).saturating_sub(plans.len());
            let first = match newest {
                None => Some(latest).filter(|latest| *latest >= oldest),
                // A newest plan before the window: the walk starts at the window's edge.
                Some(newest) => {
                    let edge = oldest.just_before();
                    timeline.next_after(newest.max(edge))
                }
            };
            plans.extend(
                std::iter::successors(first, |plan| timeline.next_after(*plan))
                    .take_while(|plan| *plan <= latest)
                    .filter(|plan| !history::plan_exists(session, key, *plan))
                    .take(room)
                    .map(convert::timestamp),
            );
            plans
        }
    }
}
