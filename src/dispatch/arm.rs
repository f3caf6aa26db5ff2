//! Changes → timers. Work is in proportion to what changed.

use pgrx::PgLogLevel;
use scheduler_core::plan::{self, Progress};
use scheduler_core::Instant;

use crate::dispatch::policy::Usable;
use crate::error::{self, Failure};
use crate::store::timer::{self, Change, NewTimer, ScheduleRow, Snapshot};
use crate::store::Session;

/// Applies up to `limit` changes; how many schedules were looked at.
pub fn apply_changes(session: &Session, now: Instant, limit: i64) -> usize {
    // Most calls find none; a plain look costs no lock and no transaction id.
    if !timer::has_changes(session) {
        return 0;
    }
    let changes = timer::pick_changes(session, limit);
    if changes.is_empty() {
        return 0;
    }
    let snapshots = timer::read(session, changes.iter().map(|change| change.schedule_id).collect());
    let (mut timers, mut dropped) = (Vec::new(), Vec::new());
    for snapshot in &snapshots {
        let terminal_at =
            changes.iter().find(|change| change.schedule_id == snapshot.schedule_id).and_then(|c| c.terminal_at);
        match &snapshot.schedule {
            Some(schedule) => timers.push(armed(snapshot, schedule, terminal_at, now)),
            None => dropped.push(snapshot.schedule_id),
        }
    }
    let count = changes.len();
    let change_ids = changes.into_iter().flat_map(|Change { change_ids, .. }| change_ids).collect();
    timer::arm(session, timers, dropped, change_ids);
    count
}

/// The timer that a changed schedule gets.
pub fn armed(snapshot: &Snapshot, row: &ScheduleRow, terminal_at: Option<Instant>, now: Instant) -> NewTimer {
    let known = snapshot.timer.as_ref().map_or(Progress::default(), |timer| timer.progress);
    let mut timer = NewTimer {
        schedule_id: snapshot.schedule_id,
        version: row.version,
        next: None,
        progress: known,
        parked: None,
        awaited: false,
        runs: Vec::new(),
    };
    match Usable::of(snapshot.schedule_id, row) {
        Err(reason) => timer.parked = Some(parked(snapshot.schedule_id, reason)),
        Ok(usable) => {
            let clock = usable.clock.bind(&usable.zone, usable.anchor);
            let (progress, next) = plan::arm(&usable.policy, &clock, known, terminal_at, snapshot.busy, now);
            timer.progress = progress;
            timer.next = (row.owned && row.enabled).then_some(next);
        }
    }
    timer
}

/// Says once, in the log, that a schedule is parked; returns the reason as the view shows it.
pub fn parked(schedule_id: i64, reason: Failure) -> String {
    let message = reason.message.clone();
    error::report(
        PgLogLevel::LOG,
        Failure {
            message: format!("scheduler: schedule {schedule_id} is parked: {message}"),
            hint: "It fires again after sched.alter_schedule or sched.define_job has put this right.".to_owned(),
            ..reason
        },
    );
    message
}
