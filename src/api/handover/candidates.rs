//! Which imported schedules are to change hands, and the locks under which they do.

use std::collections::BTreeSet;

use pgrx::pg_sys::{self, Oid};
use pgrx::PgSqlErrorCode;

use crate::pg::array::Many;
use crate::pg::convert;
use crate::pg::error::{Failure, Outcome};
use crate::pg::session;
use crate::pg::utf8_text::Text;
use crate::store::handover;
use crate::store::handover::taken::{self, Candidate};
use crate::store::shard;

/// The names of an argument.
pub fn names(given: Option<Many<Text>>) -> Outcome<Option<Vec<String>>> {
    given
        .map(|names| names.into_iter().map(|name| convert::name("an element of schedule_names", name)).collect())
        .transpose()
}

/// `0A000` where one snapshot is all that the transaction sees: a run of theirs that has begun since would be run again.
fn check_isolation() -> Outcome<()> {
    // SAFETY: reads a global of the process.
    if unsafe { pg_sys::XactIsoLevel } < pg_sys::XACT_REPEATABLE_READ as i32 {
        return Ok(());
    }
    Err(Failure::new(
        PgSqlErrorCode::ERRCODE_FEATURE_NOT_SUPPORTED,
        "schedules change hands in READ COMMITTED transactions only",
        "An older snapshot does not show what the other scheduler has run since: SET TRANSACTION ISOLATION LEVEL READ COMMITTED.",
    ))
}

/// What was imported of these names, under locks that keep imports from there and other take-overs out; `42704`, `42501`.
pub fn locked(source: Option<&str>, names: Option<&[String]>, caller: Oid) -> Outcome<Vec<Candidate>> {
    check_isolation()?;
    let mut held: BTreeSet<(String, String)> = BTreeSet::new();
    // Without a schedule that the caller may move nothing is locked. What came up before the locks is locked as well.
    loop {
        let found = looked_up(source, names, caller)?;
        let all: BTreeSet<_> = found.iter().map(|one| (one.source.clone(), one.schema.clone())).collect();
        let missing: Vec<_> = all.difference(&held).cloned().collect();
        if missing.is_empty() {
            return Ok(found);
        }
        for place in missing {
            handover::lock(&place.0, &place.1);
            held.insert(place);
        }
    }
}

/// The same, not locked.
fn looked_up(source: Option<&str>, names: Option<&[String]>, caller: Oid) -> Outcome<Vec<Candidate>> {
    let found = session(|session| taken::read(session, source, names.map(<[String]>::to_vec)));
    for name in names.unwrap_or_default() {
        match found.iter().find(|one| one.name == *name) {
            None => {
                let hint = "Import it first: sched.import_from. sched.schedules has the names.";
                return Err(Failure::unknown("imported schedule", name, hint));
            }
            Some(one) if !one.is_of(caller) => return Err(Failure::not_owner("schedule", name)),
            Some(_) => {}
        }
    }
    session(|session| names.unwrap_or_default().iter().try_for_each(|name| shard::require_schedule(session, name)))?;
    Ok(found.into_iter().filter(|one| one.is_of(caller)).collect())
}

/// The same by the schema that they come from.
pub fn by_schema(found: impl Iterator<Item = Candidate>) -> Vec<(String, Vec<Candidate>)> {
    let mut schemas: Vec<(String, Vec<Candidate>)> = Vec::new();
    for one in found {
        match schemas.iter_mut().find(|(schema, _)| *schema == one.schema) {
            Some((_, some)) => some.push(one),
            None => schemas.push((one.schema.clone(), vec![one])),
        }
    }
    schemas
}
