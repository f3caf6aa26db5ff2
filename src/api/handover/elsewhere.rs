//! What to do about a row that another database runs. That database has none of the tables, so nothing can be imported there: the note has the
//! statements to run instead.

use crate::pg::role;
use crate::store::handover::foreign::{literal, quoted};

use super::ready::Ready;

/// The note of a row that could be a schedule in that database. Its schedule fires there once it is switched off here.
pub fn in_database(database: &str, ready: &Ready) -> String {
    let (schedule, job) = (&ready.schedule, &ready.job);
    let make = include_str!("../../../sql/query/handover/elsewhere.sql").trim_end();
    let move_on = include_str!("../../../sql/query/handover/elsewhere_on.sql").trim_end();
    let text = if schedule.enabled { format!("{make}{move_on}") } else { make.to_owned() };
    let own_transactions = job.own_transactions.to_string();
    let parts = [
        ("{database}", quoted(database)),
        ("{role}", quoted(&role::name(ready.owner))),
        ("{name}", literal(&schedule.schedule_name)),
        ("{clock}", literal(&schedule.clock)),
        ("{command}", literal(job.command.as_deref().unwrap_or_default())),
        ("{zone}", literal(&schedule.time_zone)),
        ("{overlap}", schedule.overlap.clone()),
        ("{own_transactions}", own_transactions),
        ("{id}", ready.id.clone()),
    ];
    filled(&text, &parts)
}

/// A text with its parts: what a part has is no place for another.
fn filled(text: &str, parts: &[(&str, String)]) -> String {
    let mut rest = text;
    let mut all = String::with_capacity(text.len());
    while let Some((at, (place, part))) =
        parts.iter().filter_map(|part| Some((rest.find(part.0)?, part))).min_by_key(|(at, _)| *at)
    {
        let (before, after) = rest.split_at(at);
        all.push_str(before);
        all.push_str(part);
        rest = after.get(place.len()..).unwrap_or_default();
    }
    all.push_str(rest);
    all
}
