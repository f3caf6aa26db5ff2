//! `acknowledge`: somebody knows.

use pgrx::datum::TimestampWithTimeZone;
use pgrx::prelude::*;

use crate::pg::convert::{self, required};
use crate::pg::error::{or_raise, Failure, Outcome};
use crate::pg::{oid_cache, role, session};
use crate::store::alert;
use crate::store::database_clock;

#[pg_extern(schema = "sched", volatile, parallel_unsafe)]
fn acknowledge(alert_id: Option<i64>, until: Option<TimestampWithTimeZone>) {
    or_raise((|| -> Outcome<()> {
        let (alert_id, until) = (required("alert_id", alert_id)?, required("until", until)?);
        let (caller, (schema, _)) = (role::caller(), role::extension());
        let reads_all = role::reads_everything(caller, oid_cache::relation(schema, c"monitor"));
        session(|session| {
            let owner = alert::owner(session, alert_id);
            let may = owner.is_some_and(|owner| role::may_act_for(caller, owner));
            match owner {
                Some(_) if may => {}
                Some(_) if reads_all => return Err(Failure::not_owner("alert", &alert_id.to_string())),
                // Nor is one told that there is one whom the view does not tell.
                Some(_) | None => {
                    let hint = "Look for its number in the view sched.alerts.";
                    return Err(Failure::unknown("alert", &alert_id.to_string(), hint));
                }
            }
            let lasts = !convert::is_due(until, database_clock::now());
            alert::acknowledge(session, alert_id, lasts.then_some(until));
            Ok(())
        })
    })());
}
