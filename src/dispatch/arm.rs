//! Changes → timers. Work is in proportion to what changed.

use std::collections::HashMap;

use pgrx::PgLogLevel;
use scheduler_core::plan::{self, News, Progress};
use scheduler_core::Instant;

use crate::dispatch::past;
use crate::dispatch::policy::{waits_for_runs, Usable};
use crate::error::{self, Failure};
use crate::store::skip::{self, Past};
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
    write(session, snapshots, &by_id, now);
    changes.len()
}

/// Arms schedules whose timers are locked and were made before an edit that nobody has applied yet. The edit's change stays, and
/// finds nothing to do.
pub fn rearm(session: &Session, edited: Vec<Snapshot>, now: Instant) {
    write(session, edited, &HashMap::new(), now);
}

fn write(session: &Session, mut snapshots: Vec<Snapshot>, changes: &HashMap<i64, &Change>, now: Instant) {
    let cares_anew: Vec<i64> = snapshots.iter().filter(|s| begins_to_wait(s)).map(|s| s.schedule_id).collect();
    if !cares_anew.is_empty() {
        // Nobody can be firing these: their timers are locked. So what is unfinished now is all there is.
        timer::await_unfinished(session, cares_anew.clone());
        let looked_again = timer::read(session, cares_anew);
        snapshots.retain(|snapshot| !looked_again.iter().any(|new| new.schedule_id == snapshot.schedule_id));
        snapshots.extend(looked_again);
    }
    // Only an edit ends a definition.
    let edited: Vec<i64> = snapshots.iter().filter(|s| is_edited(s)).map(|s| s.schedule_id).collect();
    let mut past: HashMap<i64, Vec<Past>> = HashMap::new();
    if !edited.is_empty() {
        for ended in skip::unsettled(session, edited) {
            past.entry(ended.schedule_id).or_default().push(ended);
        }
    }
    let (mut timers, mut dropped, mut change_ids) = (Vec::new(), Vec::new(), Vec::new());
    for snapshot in &snapshots {
        let change = changes.get(&snapshot.schedule_id);
        change_ids.extend(change.iter().flat_map(|change| change.change_ids.iter().copied()));
        let terminal_at = change.and_then(|change| change.terminal_at);
        match &snapshot.schedule {
            Some(schedule) => {
                let ended = past.get(&snapshot.schedule_id).map_or(&[][..], Vec::as_slice);
                let mut armed = armed(snapshot, schedule, ended, terminal_at, now);
                armed.timer.parked = armed.reason.map(|reason| parked(snapshot.schedule_id, reason));
                timers.push(armed.timer);
            }
            None => dropped.push(snapshot.schedule_id),
        }
    }
    skip::forget(session, dropped.clone());
    timer::arm(session, timers.clone(), dropped, change_ids);
    skip::record(session, &timers, false);
}

/// Whether the timer was made before the last edit of the schedule.
pub fn is_edited(snapshot: &Snapshot) -> bool {
    match (&snapshot.schedule, &snapshot.timer) {
        (Some(row), Some(timer)) => row.version != timer.version,
        (Some(_), None) => true,
        (None, _) => false,
    }
}

/// Whether the schedule cares about runs since this edit, and may have some that it did not have to care about.
fn begins_to_wait(snapshot: &Snapshot) -> bool {
    match (&snapshot.schedule, &snapshot.timer) {
        (Some(row), Some(timer)) => row.version != timer.version && waits_for_runs(row),
        (Some(_) | None, None) | (None, Some(_)) => false,
    }
}

/// A timer as a changed schedule gets it.
pub struct ArmedTimer {
    /// The timer, not parked yet.
    pub timer: NewTimer,
    /// Why it is to be parked, where it is.
    pub reason: Option<Failure>,
}

/// The timer that a changed schedule gets; `ended` are its definitions that are over and not settled, in order.
pub fn armed(
    snapshot: &Snapshot,
    row: &ScheduleRow,
    ended: &[Past],
    terminal_at: Option<Instant>,
    now: Instant,
) -> ArmedTimer {
    let known = snapshot.timer.as_ref().map_or(Progress::default(), |timer| timer.progress);
    let was_parked = snapshot.timer.as_ref().is_some_and(|timer| timer.parked);
    // One that ended after we read the schedule belongs to a change that is still to come.
    let ended: Vec<&Past> = ended.iter().filter(|past| past.since_at < row.since_at).collect();
    let settled = past::settle(row, &ended, known);
    let mut timer = NewTimer::idle(snapshot.schedule_id, row, known);
    timer.was_parked = was_parked;
    timer.settled = ended.iter().map(|past| past.past_id).collect();
    (timer.progress, timer.skipped) = (settled.progress, settled.skipped);
    let (usable, reason) = match (Usable::read(snapshot.schedule_id, row), Usable::job_of(row)) {
        (Ok(usable), Ok(())) => (Some(usable), None),
        (Ok(usable), Err(reason)) => (Some(usable), Some(reason)),
        (Err(reason), _) => (None, Some(reason)),
    };
    match usable {
        // Plans that passed while a run went on stay passed, also once it can be used again.
        None => timer.progress.cursor = timer.progress.cursor.max(terminal_at),
        Some(usable) if row.owned && row.enabled => {
            let unparked = was_parked && reason.is_none();
            let news = News { terminal_at, busy: snapshot.busy, unparked };
            let clock = usable.clock.bind(&usable.zone, usable.anchor);
            let armed = plan::arm(&usable.policy, &clock, timer.progress, news, now);
            timer.progress = armed.progress;
            timer.skipped.extend(armed.skipped.into_iter().map(|skip| (row.since_at, skip)));
            timer.next = reason.is_none().then_some(armed.next);
        }
        Some(_) => {}
    }
    ArmedTimer { timer, reason }
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
