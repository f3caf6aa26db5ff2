//! Changes → timers. Work is in proportion to what changed.

use std::collections::{HashMap, HashSet};

use pgrx::PgLogLevel;
use scheduler_core::schedule::{plan, ArmEvent, Progress};
use scheduler_core::Instant;

use crate::dispatch::ahead;
use crate::dispatch::bisect::bisect;
use crate::dispatch::compile::{waits_for_runs, CompiledSchedule};
use crate::dispatch::definition_history::{self, EndedDefinitions, SettledProgress};
use crate::dispatch::retry::{postponed, try_again_at};
use crate::guc;
use crate::pg::error::{self, Failure};
use crate::pg::{session, subtransaction, Session};
use crate::store::database_clock;
use crate::store::schedule::ahead::horizon;
use crate::store::schedule::change::{self, Change, TimerLock};
use crate::store::schedule::{self, skipped_plans};
use crate::store::timer::{self, rebuild, NewTimer, ScheduleRow, ScheduleState};

/// Applies all changes that nobody has in hand; how many schedules were looked at.
pub fn apply_all_changes() -> usize {
    let (mut applied, mut after) = (0, 0);
    loop {
        // A session for each batch: what it read goes with it.
        match session(|session| apply_changes(session, database_clock::now(), guc::batch_size(), &mut after)) {
            0 => return applied,
            some => applied += some,
        }
        pgrx::check_for_interrupts!();
    }
}

/// Applies up to `limit` changes; how many schedules were looked at. `after` is where the next call goes on, at first 0: what is
/// behind it is looked at again when the end was reached.
pub fn apply_changes(session: &Session, now: Instant, limit: i64, after: &mut i64) -> usize {
    // Most calls find none; a plain look costs no lock and no transaction id.
    if *after == 0 && !change::exist(session, 0) {
        return 0;
    }
    let (mut from, mut from_the_first) = (*after, *after == 0);
    loop {
        // Locked and written in one subtransaction, as fires are.
        let whole = subtransaction::run(|| {
            let picked = ChangeBatch::pick(session, from, now, limit);
            let applied = apply(session, &picked.changes, now);
            (picked.more_after, applied.len(), applied)
        });
        let (more_after, count, applied) = match whole {
            Ok(whole) => whole,
            Err(_) => {
                let picked = ChangeBatch::pick(session, from, now, limit);
                let mut bad = 0;
                let mut defer = |change: &Change, failure| {
                    bad += 1;
                    failed(session, change, &failure, now);
                };
                let applied = bisect(&picked.changes, &mut |part| apply(session, part, now), &mut defer);
                let applied: Vec<AppliedChange> = applied.into_iter().flatten().collect();
                (picked.more_after, bad + applied.len(), applied)
            }
        };
        applied.iter().for_each(|one| one.report(session));
        *after = more_after.unwrap_or(0);
        if count > 0 {
            return count;
        }
        // What others have in hand must not keep us from what comes behind it.
        match more_after {
            Some(last) => from = last,
            None if from_the_first => return 0,
            None => (from, from_the_first) = (0, true),
        }
        pgrx::check_for_interrupts!();
    }
}

/// Changes of schedules that nobody else works on.
struct ChangeBatch {
    changes: Vec<Change>,
    /// The last change that was looked at; `None` where it was the last of all.
    more_after: Option<i64>,
}

/// What a change leads to: a timer, or the end of it where the schedule was dropped.
struct AppliedChange {
    change: Change,
    timer: Option<NewTimer>,
}

impl AppliedChange {
    /// Says in the log what is new, once it is written.
    fn report(&self, session: &Session) {
        self.timer.iter().for_each(|timer| report_parking(session, timer));
    }
}

impl ChangeBatch {
    fn pick(session: &Session, after: i64, now: Instant, limit: i64) -> ChangeBatch {
        let mut changes = change::pick(session, after, now, limit);
        let mut change_ids: Vec<i64> = changes.iter().flat_map(|change| change.change_ids.iter().copied()).collect();
        change_ids.sort_unstable();
        let more_after = change_ids.last().copied().filter(|_| i64::try_from(change_ids.len()) == Ok(limit));
        changes.retain(|change| change.timer_lock != TimerLock::Busy);
        ChangeBatch { changes, more_after }
    }
}

/// Decides what these changes lead to, and writes it.
fn apply(session: &Session, changes: &[Change], now: Instant) -> Vec<AppliedChange> {
    let mut by_id: HashMap<i64, &Change> = changes.iter().map(|change| (change.schedule_id, change)).collect();
    if by_id.is_empty() {
        return Vec::new();
    }
    let mut snapshots = read(session, by_id.keys().copied().collect());
    // A timer that came up between the two looks is somebody else's, who may be at work with it: its change stays.
    snapshots.retain(|snapshot| {
        snapshot.timer.is_none() || by_id.get(&snapshot.schedule_id).is_some_and(|c| c.timer_lock == TimerLock::Locked)
    });
    // Where somebody is just ending a run, the change stays.
    let (snapshots, _busy) = prepared(session, snapshots);
    let past = ended_definitions(session, &snapshots, now);
    let decided = snapshots.iter().filter_map(|snapshot| {
        let change = by_id.remove(&snapshot.schedule_id)?.clone();
        let ended = past.get(&snapshot.schedule_id);
        let timer = snapshot.schedule.as_ref().map(|row| armed(snapshot, row, ended, change.terminal_at, now));
        Some(AppliedChange { change, timer })
    });
    let decided: Vec<AppliedChange> = decided.collect();
    write(session, &decided);
    decided
}

/// Schedules with their timers as they are now.
fn read(session: &Session, schedule_ids: Vec<i64>) -> Vec<ScheduleState> {
    timer::read(session, schedule_ids.clone(), timer::timers(session, schedule_ids))
}

/// Schedules whose timers are locked, made ready to be armed: what is unfinished is remembered for those that care about it from now on,
/// and timers that can be no base are replaced. Those of which somebody is just ending a run are left out, and returned by themselves.
fn prepared(session: &Session, mut snapshots: Vec<ScheduleState>) -> (Vec<ScheduleState>, Vec<i64>) {
    let mut cares_anew: HashSet<i64> =
        snapshots.iter().filter(|s| begins_to_wait(s)).map(|snapshot| snapshot.schedule_id).collect();
    let mut busy = Vec::new();
    if !cares_anew.is_empty() {
        // Nobody can be firing these: their timers are locked, or not there. So what is unfinished now is all there is.
        busy = timer::await_unfinished(session, cares_anew.iter().copied().collect());
        let without_timer: HashSet<i64> =
            snapshots.iter().filter(|s| s.timer.is_none()).map(|snapshot| snapshot.schedule_id).collect();
        snapshots.retain(|snapshot| !cares_anew.contains(&snapshot.schedule_id));
        cares_anew.retain(|schedule_id| !busy.contains(schedule_id));
        let mut again = read(session, cares_anew.into_iter().collect());
        // As in `apply`: a timer that came up meanwhile is somebody else's.
        again.retain(|snapshot| snapshot.timer.is_none() || !without_timer.contains(&snapshot.schedule_id));
        snapshots.extend(again);
    }
    // Not of those that are busy: they come again with the timer that they have.
    forget_newer(session, &mut snapshots);
    derive_new(session, &mut snapshots);
    (snapshots, busy)
}

/// Writes what changes lead to.
fn write(session: &Session, decided: &[AppliedChange]) {
    let timers: Vec<&NewTimer> = decided.iter().filter_map(|one| one.timer.as_ref()).collect();
    let dropped: Vec<i64> =
        decided.iter().filter(|one| one.timer.is_none()).map(|one| one.change.schedule_id).collect();
    let change_ids: Vec<i64> = decided.iter().flat_map(|one| one.change.change_ids.iter().copied()).collect();
    if !change_ids.is_empty() {
        skipped_plans::forget(session, &dropped);
        timer::arm(session, &timers, dropped, change_ids);
        record(session, &timers);
    }
}

/// Arms schedules whose timers are locked and were made before an edit that nobody has applied yet. The edit's change stays, and
/// finds nothing to do, nor to say: what became of them is returned for [`report_parking`].
pub fn rearm(session: &Session, edited: &[i64], now: Instant) -> Vec<NewTimer> {
    let (snapshots, busy) = prepared(session, read(session, edited.to_vec()));
    if !busy.is_empty() {
        timer::postpone(session, busy, postponed(now));
    }
    let past = ended_definitions(session, &snapshots, now);
    let timers: Vec<NewTimer> = snapshots
        .iter()
        .filter_map(|snapshot| {
            let ended = past.get(&snapshot.schedule_id);
            Some(armed(snapshot, snapshot.schedule.as_ref()?, ended, None, now))
        })
        .collect();
    let written: Vec<&NewTimer> = timers.iter().collect();
    timer::arm(session, &written, Vec::new(), Vec::new());
    record(session, &written);
    timers
}

/// Records what timers that were just armed have passed over and remember.
pub fn record(session: &Session, timers: &[&NewTimer]) {
    skipped_plans::record(session, timers, &HashSet::new());
    ahead::straighten(session, timers);
}

/// Schedules without a timer that are not new (a restored database, say) know from the ledger and the skips what is decided.
fn derive_new(session: &Session, snapshots: &mut [ScheduleState]) {
    let not_new = |snapshot: &&ScheduleState| {
        snapshot.timer.is_none() && snapshot.schedule.as_ref().is_some_and(|row| row.version > 1)
    };
    let ids: Vec<i64> = snapshots.iter().filter(not_new).map(|snapshot| snapshot.schedule_id).collect();
    if ids.is_empty() {
        return;
    }
    for found in rebuild::find(session, ids) {
        let snapshot = snapshots.iter_mut().find(|snapshot| snapshot.schedule_id == found.schedule_id);
        if let Some(snapshot) = snapshot {
            snapshot.timer = Some(found.timer());
        }
    }
}

/// The definitions that have ended and are not settled, of schedules that were edited: only an edit ends one.
pub fn ended_definitions(
    session: &Session,
    snapshots: &[ScheduleState],
    now: Instant,
) -> HashMap<i64, EndedDefinitions> {
    let ids: Vec<i64> = snapshots.iter().filter(|s| is_edited(s)).map(|snapshot| snapshot.schedule_id).collect();
    let mut past: HashMap<i64, EndedDefinitions> = HashMap::new();
    if ids.is_empty() {
        return past;
    }
    for ended in skipped_plans::unsettled(session, ids) {
        past.entry(ended.schedule_id).or_default().definitions.push(ended);
    }
    let open = snapshots.iter().filter_map(|snapshot| {
        let known = snapshot.timer.as_ref().map_or(Progress::default(), |timer| timer.progress_or_all(now));
        let (after, until) = past.get(&snapshot.schedule_id)?.open(snapshot.schedule.as_ref()?, known)?;
        Some((snapshot.schedule_id, after, until))
    });
    for (schedule_id, fired) in skipped_plans::fired_between(session, &open.collect::<Vec<_>>()) {
        past.entry(schedule_id).or_default().fired = fired;
    }
    past
}

/// Whether the timer was made before the last edit of the schedule.
pub fn is_edited(snapshot: &ScheduleState) -> bool {
    match (&snapshot.schedule, &snapshot.timer) {
        (Some(row), Some(timer)) => row.version != timer.version,
        (Some(_), None) => true,
        (None, _) => false,
    }
}

fn failed(session: &Session, change: &Change, failure: &Failure, now: Instant) {
    let Change { schedule_id, failures, change_ids, .. } = change;
    change::failed(session, change_ids.clone(), try_again_at(session, *schedule_id, "armed", *failures, failure, now));
}

/// Forgets timers that are newer than their schedules, which a superuser has put back from an older copy: all of it begins anew. Which
/// runs are awaited stays true: the end of one that goes on is reported.
fn forget_newer(session: &Session, snapshots: &mut [ScheduleState]) {
    let is_newer = |snapshot: &&mut ScheduleState| match (&snapshot.schedule, &snapshot.timer) {
        (Some(row), Some(timer)) => timer.version > row.version,
        (Some(_) | None, None) | (None, Some(_)) => false,
    };
    let mut newer = Vec::new();
    for snapshot in snapshots.iter_mut().filter(is_newer) {
        snapshot.timer = None;
        newer.push(snapshot.schedule_id);
    }
    if !newer.is_empty() {
        timer::forget(session, newer);
    }
}

/// Whether the schedule cares about runs since this edit, and may have some that it did not have to care about. (To look for them costs
/// as much as there are unfinished runs of anybody.)
fn begins_to_wait(snapshot: &ScheduleState) -> bool {
    match (&snapshot.schedule, &snapshot.timer) {
        (Some(row), Some(timer)) => row.version != timer.version && waits_for_runs(row) && !timer.tracks_runs,
        // One that is not new may have runs from before it lost its timer, or from before it was restored.
        (Some(row), None) => row.version > 1 && waits_for_runs(row),
        (None, _) => false,
    }
}

/// The timer that a changed schedule gets; `ended` is what is known of its definitions that are over and not settled.
pub fn armed(
    snapshot: &ScheduleState,
    row: &ScheduleRow,
    ended: Option<&EndedDefinitions>,
    terminal_at: Option<Instant>,
    now: Instant,
) -> NewTimer {
    let known = snapshot.timer.as_ref().map_or(Progress::default(), |timer| timer.progress_or_all(now));
    let settled =
        ended.map_or_else(|| SettledProgress::nothing(known), |ended| definition_history::settle(row, ended, known));
    // A definition that begins with an edit begins anew, whatever was remembered before.
    let is_anew = !settled.definition_ids.is_empty();
    let unreadable = snapshot.timer.as_ref().and_then(|timer| timer.progress.clone().err()).filter(|_| !is_anew);
    // A run that has ended has ended by now, whatever the clock said then.
    let terminal_at = terminal_at.map(|at| at.min(now));
    let mut timer = NewTimer::idle(snapshot.schedule_id, row, known);
    let lies_ahead = ended.is_some_and(|ended| ended.lie_ahead(row)) || (is_anew && known.cursor > Some(horizon(now)));
    timer.straightens = lies_ahead.then_some(row.created_at);
    timer.is_edited = is_edited(snapshot);
    timer.was_parked = snapshot.timer.as_ref().and_then(|timer| timer.parked.clone());
    timer.awaited = waits_for_runs(row);
    (timer.progress, timer.skipped, timer.settled) = (settled.progress, settled.skipped, settled.definition_ids);
    let compiled =
        match unreadable.map_or_else(|| CompiledSchedule::compile_without_job(snapshot.schedule_id, row), Err) {
            Ok(compiled) => {
                timer.parked = CompiledSchedule::check_job(row).err();
                Some(compiled)
            }
            Err(reason) => {
                timer.parked = Some(reason);
                None
            }
        };
    match compiled {
        // Plans that passed while a run went on stay passed, also once it can be used again.
        None => timer.progress.cursor = timer.progress.cursor.max(terminal_at),
        Some(compiled) if row.owned && row.enabled => {
            let unparked = timer.was_parked.is_some() && timer.parked.is_none();
            let news = ArmEvent { terminal_at, busy: snapshot.busy, unparked };
            let clock = compiled.clock.bind(&compiled.zone, compiled.anchor);
            let armed = plan::arm(&compiled.policy, &clock, timer.progress, news, now);
            timer.progress = armed.progress;
            timer.skipped.extend(armed.skipped.into_iter().map(|skip| (row.defined_at, skip)));
            timer.next = timer.parked.is_none().then_some(armed.next);
        }
        Some(_) => {}
    }
    timer
}

/// One line in the log where a schedule is parked anew, for another reason, or no longer.
pub fn report_parking(session: &Session, timer: &NewTimer) {
    match (&timer.parked, &timer.was_parked) {
        (Some(reason), Some(known)) if reason.message == *known => {}
        (Some(reason), Some(_) | None) => report_parked(session, timer.schedule_id, reason),
        (None, Some(_)) => {
            let text = format!("scheduler: {} is no longer parked", schedule::called(session, timer.schedule_id));
            error::report(PgLogLevel::LOG_SERVER_ONLY, Failure::note(text));
        }
        (None, None) => {}
    }
}

/// Says once, in the log, that a schedule is parked.
pub fn report_parked(session: &Session, schedule_id: i64, reason: &Failure) {
    error::report(
        PgLogLevel::LOG_SERVER_ONLY,
        Failure {
            message: format!("scheduler: {} is parked: {}", schedule::called(session, schedule_id), reason.message),
            hint: "It fires again after sched.alter_schedule or sched.define_job has put this right.".to_owned(),
            ..reason.clone()
        },
    );
}
