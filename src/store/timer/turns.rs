//! Which of the due timers a batch takes where it cannot take all: those of the owners in turns. Where all that is due fits into one batch, and
//! where only one role has jobs, nothing of this is asked.

use std::cell::Cell;
use std::collections::{BTreeMap, HashSet};

use scheduler_core::schedule::batch;
use scheduler_core::Instant;

use crate::heap::layouts;
use crate::heap::Table;
use crate::pg::invalidation::{self, JOBS};
use crate::pg::Session;
use crate::store::fast_path;
use crate::store::schedule::state::TimerRow;
use crate::store::timer::new_timer::BatchWindow;
use crate::store::timer::{due_scan, sql};

thread_local! {
    /// The owner behind whom the next batch begins, where there were more of them than it could take.
    static SERVED: Cell<u32> = const { Cell::new(0) };
    /// Whether jobs have several owners, and how many changes of jobs were known when that was so.
    static SEVERAL: Cell<Option<(u64, bool)>> = const { Cell::new(None) };
}

/// The batch where `picked` is not all that is due: locked, of the owners in turns.
pub fn pick(
    session: &Session,
    window: BatchWindow,
    picked: BTreeMap<i64, TimerRow>,
    now: Instant,
) -> BTreeMap<i64, TimerRow> {
    let is_all = i64::try_from(picked.len()) != Ok(window.latest + window.earliest);
    if is_all || !has_several_owners(session) {
        return picked;
    }
    let mut chosen: HashSet<i64> = HashSet::new();
    for (most, latest) in [(window.latest, true), (window.earliest, false)].into_iter().filter(|(most, _)| *most > 0) {
        let by_row = fast_path::open_in(session, |schema| due_scan::each_owner(schema, window, now, most, latest));
        let mut lists = by_row.unwrap_or_else(|| sql::each_owner(session, window, now, most, latest));
        for list in lists.values_mut() {
            list.retain(|schedule_id| !chosen.contains(schedule_id));
        }
        let (taken, served) = batch::take_in_turns(lists, SERVED.get(), usize::try_from(most).unwrap_or(usize::MAX));
        SERVED.set(served);
        chosen.extend(taken);
    }
    let mut chosen = Vec::from_iter(chosen);
    chosen.sort_unstable();
    let locked = fast_path::open_in(session, |schema| due_scan::lock_these(schema, &chosen, now));
    locked.unwrap_or_else(|| sql::lock_these(session, chosen, now))
}

fn has_several_owners(session: &Session) -> bool {
    invalidation::accept_invalidations();
    if let Some((_, several)) = SEVERAL.get().filter(|(changes, _)| *changes == JOBS.changes()) {
        return several;
    }
    let changes =
        fast_path::open_in(session, |schema| Some(Table::open(schema, &layouts::JOB)?.watch(&JOBS))).flatten();
    let several = sql::has_several_owners(session);
    SEVERAL.set(changes.map(|changes| (changes, several)));
    several
}
