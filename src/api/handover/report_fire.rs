//! `report_fire`: what another scheduler has run that writes nothing down itself.

use pgrx::datum::TimestampWithTimeZone;
use pgrx::prelude::*;
use scheduler_core::Instant;

use crate::pg::convert::{self, required};
use crate::pg::error::or_raise;
use crate::pg::utf8_text::Text;
use crate::pg::{role, session};
use crate::store::database_clock;
use crate::store::handover::taken;

use crate::api::schedule;

#[pg_extern(schema = "sched", volatile, parallel_unsafe)]
fn report_fire(
    schedule_name: Option<Text>,
    plan_time: Option<TimestampWithTimeZone>,
    fired_at: default!(Option<TimestampWithTimeZone>, "sched.now()"),
) {
    or_raise((|| {
        let name = convert::name("schedule_name", schedule_name)?;
        let plan = convert::instant("plan_time", required("plan_time", plan_time)?)?;
        let fired_at = convert::instant("fired_at", required("fired_at", fired_at)?)?;
        let caller = role::caller();
        session(|session| {
            let found = schedule::find(session, &name, caller)?;
            let keep =
                database_clock::now().checked_add_micros(-crate::guc::history_retention()).unwrap_or(Instant::MIN);
            taken::report_fire(session, found.schedule_id, plan, fired_at, keep);
            Ok(())
        })
    })());
}
