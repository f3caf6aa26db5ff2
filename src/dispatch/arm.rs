//! Changes → timers. Work is in proportion to what changed.

use std::collections::HashMap;

use pgrx::PgLogLevel;
use scheduler_core::plan::{self, Progress};
use scheduler_core::Instant;

use crate::dispatch::policy::Usable;
use crate::error::{self, Failure};
use crate::store::timer::{self, Change, NewTimer, ScheduleRow, Snapshot, Standing};
use crate::store::Session;

/// Applies up to `limit` changes; how many schedules were looked at.
pub fn apply_changes(session: &Session, now: Instant, limit: i64) -> usize {
    // Most calls find none; a plain look costs no lock and no transaction id.
    if !timer::has_changes(session) {
        return 0;
    }
    let mut after = 0;
    loop {
        let changes = timer::pick_changes(session, after, limit);
        let Some(last) = changes.iter().flat_map(|change| &change.change_ids).max() else { return 0 };
        after = *last;
        // What others have in hand must not keep us from what comes behind it.
        let free: Vec<Change> = changes.into_iter().filter(|change| change.standing != Standing::Busy).collect();
        if !free.is_empty() {
            return apply(session, &free, now);
        }
        pgrx::check_for_interrupts!();
    }
}

fn apply(session: &Session, changes: &[Change], now: Instant) -> usize {
    let by_id: HashMap<i64, &Change> = changes.iter().map(|change| (change.schedule_id, change)).collect();
    let mut snapshots = timer::read(session, by_id.keys().copied().collect());
    // A timer that came up between the two looks is somebody else's, who may be at work with it: its change stays.
    snapshots.retain(|snapshot| {
        snapshot.timer.is_none() || by_id.get(&snapshot.schedule_id).is_some_and(|c| c.standing == Standing::Locked)
    });
    let cares_anew: Vec<i64> = snapshots.iter().filter(|s| begins_to_wait(s)).map(|s| s.schedule_id).collect();
    if !cares_anew.is_empty() {
        // Nobody can be firing these: their timers are locked. So what is unfinished now is all there is.
        timer::await_unfinished(session, cares_anew.clone());
        let looked_again = timer::read(session, cares_anew);
        snapshots.retain(|snapshot| !looked_again.iter().any(|new| new.schedule_id == snapshot.schedule_id));
        snapshots.extend(looked_again);
    }
    let (mut timers, mut dropped, mut change_ids) = (Vec::new(), Vec::new(), Vec::new());
    for snapshot in &snapshots {
        let Some(change) = by_id.get(&snapshot.schedule_id) else { continue };
        change_ids.extend_from_slice(&change.change_ids);
        match &snapshot.schedule {
            Some(schedule) => timers.push(armed(snapshot, schedule, change.terminal_at, now)),
            None => dropped.push(snapshot.schedule_id),
        }
    }
    timer::arm(session, timers, dropped, change_ids);
    changes.len()
}

/// Whether the schedule cares about runs since this edit, and may have some that it did not have to care about.
fn begins_to_wait(snapshot: &Snapshot) -> bool {
    match (&snapshot.schedule, &snapshot.timer) {
        (Some(row), Some(timer)) => {
            row.version != timer.version && (row.rearm != "on_dispatch" || row.overlap != "allow")
        }
        (Some(_) | None, None) | (None, Some(_)) => false,
    }
}

/// The timer that a changed schedule gets.
pub fn armed(snapshot: &Snapshot, row: &ScheduleRow, terminal_at: Option<Instant>, now: Instant) -> NewTimer {
    let known = snapshot.timer.as_ref().map_or(Progress::default(), |timer| timer.progress);
    let parked_for = snapshot.timer.as_ref().and_then(|timer| timer.parked.as_deref());
    let mut timer = NewTimer::idle(snapshot.schedule_id, row, known);
    match Usable::of(snapshot.schedule_id, row) {
        Err(reason) => {
            timer.parked = match parked_for {
                Some(known) if known == reason.message => Some(reason.message),
                Some(_) | None => Some(parked(snapshot.schedule_id, reason)),
            };
            // Plans that passed while a run went on stay passed, also once it can be used again.
            timer.progress.cursor = known.cursor.max(terminal_at);
        }
        Ok(usable) => {
            if parked_for.is_some() {
                unparked(snapshot.schedule_id);
            }
            let clock = usable.clock.bind(&usable.zone, usable.anchor);
            let (progress, next) = plan::arm(&usable.policy, &clock, known, terminal_at, snapshot.busy, now);
            timer.progress = progress;
            timer.next = (row.owned && row.enabled).then_some(next);
        }
    }
    timer
}

/// Says in the log that what kept a schedule parked was put right.
fn unparked(schedule_id: i64) {
    let text = format!("scheduler: schedule {schedule_id} is no longer parked");
    error::report(PgLogLevel::LOG_SERVER_ONLY, Failure::note(text));
}

/// Says once, in the log, that a schedule is parked; returns the reason as the view shows it.
pub fn parked(schedule_id: i64, reason: Failure) -> String {
    let message = reason.message.clone();
    error::report(
        PgLogLevel::LOG_SERVER_ONLY,
        Failure {
            message: format!("scheduler: schedule {schedule_id} is parked: {message}"),
            hint: "It fires again after sched.alter_schedule or sched.define_job has put this right.".to_owned(),
            ..reason
        },
    );
    message
}
