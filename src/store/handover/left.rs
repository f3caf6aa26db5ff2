//! What would be left switched off in other schedulers if the extension went now.

use std::ffi::{CStr, CString};

use pgrx::pg_sys::Oid;
use pgrx::PgSqlErrorCode;

use crate::pg::error::Failure;
use crate::pg::{role, session, syscache};
use crate::store::handover::foreign::{self, ForeignSchema};
use crate::store::handover::switch;
use crate::store::handover::taken::{self, Candidate};

/// How many schedules a message names.
const MOST_NAMES: usize = 10;

/// `55006` where a schedule that was taken over could be handed back: who drops the extension would leave its job switched off there.
pub fn refusal(caller: Oid) -> Option<Failure> {
    // The objects of an older release have no such table.
    syscache::relation_named(c"sched", c"imported")?;
    let mut taken = session(|session| taken::read(session, None, None));
    taken.retain(|one| one.taken);
    let places = taken.chunk_by(|a, b| (&a.source, &a.schema) == (&b.source, &b.schema));
    let left: Vec<&Candidate> = places.flat_map(|some| that_are_there(some, caller)).collect();
    let one = left.first()?;
    let literals: Vec<String> = left.iter().take(MOST_NAMES).map(|one| foreign::literal(&one.name)).collect();
    let more = match left.len().saturating_sub(MOST_NAMES) {
        0 => String::new(),
        count => format!(" There are {count} more."),
    };
    Some(Failure::new(
        PgSqlErrorCode::ERRCODE_OBJECT_IN_USE,
        format!("schedule \"{}\" was taken over from {}, where nothing would run it", one.name, one.source),
        format!(
            "Call sched.hand_back(ARRAY[{}]) first, which gives back what was taken over.{more}",
            literals.join(", ")
        ),
    ))
}

/// Those of one place whose rows are there. What the caller may not read is taken for being there: its owner can hand it back.
fn that_are_there(some: &[Candidate], caller: Oid) -> Vec<&Candidate> {
    let Some((first, switch)) = some.first().and_then(|first| Some((first, switch::of(&first.source)?))) else {
        return Vec::new();
    };
    if !switch.is_there(&first.schema) {
        return Vec::new();
    }
    let name = CString::new(first.schema.as_str()).unwrap_or_default();
    let mut tables = switch.writes.iter().filter_map(|table| syscache::relation_named(&name, table));
    let may_read = tables.all(|table| role::may_update(caller, table));
    let schema = ForeignSchema { name: first.schema.clone(), speaks_for_all: false };
    let is_trusted = |table: &&CStr| schema.trust(table, caller).is_ok();
    if !may_read || !switch.writes.iter().all(is_trusted) || switch.check_guard(&schema).is_err() {
        return some.iter().collect();
    }
    let ids: Vec<String> = some.iter().map(|one| one.source_id.clone()).collect();
    let there = switch.there(&schema, &ids);
    some.iter().filter(|one| there.contains(&one.source_id)).collect()
}
