//! What is known of a row that was imported before.

use std::collections::HashMap;

use pgrx::pg_sys::Oid;

use crate::store::handover::{Imported, ImportedSchedule};

use super::source::{fingerprint, ForeignRow, Place};

/// A row of what `import_from` returns.
pub type ResultRow =
    (String, Option<String>, Option<String>, Option<String>, Option<String>, &'static str, Option<String>);

/// What is before the `/` of an id, if there is one.
pub fn first_part(id: &str) -> &str {
    id.split_once('/').map_or(id, |(first, _)| first)
}

/// The jobs that were imported and are still there, by the first part of their rows' ids, with their owners.
pub fn jobs_of(all: &[Imported]) -> HashMap<String, (String, Oid)> {
    let of = |one: &Imported| {
        let schedule = one.schedule.as_ref().filter(|schedule| schedule.job_name == one.job_name)?;
        Some((first_part(&one.source_id).to_owned(), (one.job_name.clone(), schedule.owner?)))
    };
    all.iter().filter_map(of).collect()
}

/// Whether this role may act for its schedule.
pub fn is_of(before: &Imported, caller: Oid) -> bool {
    before.schedule.as_ref().is_some_and(|schedule| schedule.is_of(caller))
}

/// Whether a row says what it said before. Whether it is on is theirs to say while it is fired there, and ours while it is fired here.
pub fn is_same(before: &Imported, row: &ForeignRow) -> bool {
    let is_on_as_there = |schedule: &ImportedSchedule| match &row.place {
        Place::Here(wanted) => {
            schedule.is_owned || wanted.as_ref().as_ref().map_or(true, |wanted| wanted.enabled == schedule.enabled)
        }
        Place::Elsewhere(_) | Place::Database(..) => true,
    };
    before.fingerprint == fingerprint(&row.said) && before.schedule.as_ref().is_none_or(is_on_as_there)
}

/// A result of which only the schedule that it had before is known.
pub fn plainly(id: String, before: Option<&Imported>, verdict: &'static str, note: Option<String>) -> ResultRow {
    let of = before.and_then(|before| before.schedule.as_ref());
    let part = |text: fn(&ImportedSchedule) -> &String| of.map(text).cloned();
    (id, part(|s| &s.name), part(|s| &s.clock), part(|s| &s.time_zone), part(|s| &s.job_name), verdict, note)
}
