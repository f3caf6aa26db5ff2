//! Looks whether schedules call for alerts: reads what is so, has the core judge it (`scheduler_core::alert`), and opens and resolves.
//!
//! A look comes to the same whenever and how often it is made, so nothing depends on a process that lives on, and nothing that claims, runs
//! or fires writes anything for it, but where a run fails for good and where a schedule cannot be fired. What follows from a claim or an end
//! is read when it can matter at the earliest.

use std::collections::{BTreeMap, BTreeSet, HashMap};

use pgrx::datum::Uuid;
use pgrx::pg_sys::Oid;
use pgrx::{PgLogLevel, PgSqlErrorCode};
use scheduler_core::alert::{judge, End, Kind, Open, Run, Situation, Stage, State, Transition};
use scheduler_core::clock::DateTime;
use scheduler_core::Instant;

use crate::dispatch::bisect::bisect;
use crate::dispatch::finish::wake_for_first;
use crate::dispatch::notify::notify;
use crate::guc;
use crate::pg::error::{self, or_raise, Failure};
use crate::pg::jsonb::Jsonb;
use crate::pg::{convert, role, subtransaction, Session};
use crate::store::alert::facts::{self, LedgerRun, Schedule, Wanted};
use crate::store::alert::{self, execution_id, run_id, Memory, NewAlert, Watch};
use crate::store::execution::ids;
use crate::store::queue::enqueue::{self, EnqueueBatch};
use crate::store::{job, queue, shard};

/// How many runs of a schedule that follow what was seen are looked at, and how many are remembered of those that run or can be late. Later ones
/// are looked at when some of these have ended.
const MOST_RUNS: usize = 200;
/// How many are remembered, with those that wait for a time: retries, backfills, what was snoozed.
const MOST_REMEMBERED: usize = 1000;
/// A schedule of which nothing can be read is looked at again after so long, in microseconds.
const PAUSE: i64 = 60_000_000;
/// What somebody's open transaction has in hand is resolved when that has ended, which is looked at so often, in microseconds.
const LOCKED: i64 = 1_000_000;

/// What calls for a look at one schedule.
struct Called {
    schedule_id: i64,
    watches: Vec<Watch>,
    /// Its plan times fire by themselves: one that does not is late.
    fires: bool,
}

/// How far looks have come.
pub struct Looked {
    /// All that was planned until then has been looked at.
    pub until: Instant,
    /// What comes up by itself is looked at in the order of schedules, from after this one on.
    after: i64,
}

impl Default for Looked {
    fn default() -> Looked {
        Looked { until: Instant::MIN, after: i64::MIN }
    }
}

/// Looks at up to `limit` of what is to be looked at: half of it what was planned, so that what comes up in masses delays none of that. How many
/// there were.
pub fn look(session: &Session, looked: &mut Looked, now: Instant, limit: i64) -> usize {
    let planned = (limit / 2).max(1);
    let schedules = (limit - planned).max(1);
    let take = |looked: &Looked| {
        let (looked_until, after) = (looked.until, looked.after);
        alert::take(session, &alert::Share { looked_until, planned, after, schedules, rows: MOST_RUNS as i64 }, now)
    };
    let mut taken = take(looked);
    if taken.is_empty() && looked.after > i64::MIN {
        looked.after = i64::MIN;
        taken = take(looked);
    }
    let fires = taken.is_empty() || guc::dispatch_of_database() != Some(false);
    let mut by_schedule: BTreeMap<i64, Vec<Watch>> = BTreeMap::new();
    for (watch, _) in &taken {
        by_schedule.entry(watch.schedule_id).or_default().push(*watch);
    }
    let called: Vec<Called> =
        by_schedule.into_iter().map(|(schedule_id, watches)| Called { schedule_id, watches, fires }).collect();
    let mut put_off = |one: &Called, failure: Failure| {
        let text = format!(
            "scheduler: alerts of schedule {} could not be looked for and will be tried again: {}",
            one.schedule_id, failure.message
        );
        error::report(PgLogLevel::LOG_SERVER_ONLY, Failure::note(text));
        alert::put_off(session, &one.watches, now.checked_add_micros(PAUSE).unwrap_or(Instant::MAX));
    };
    bisect(&called, &mut |part| look_at(session, part, now), &mut put_off);
    if taken.iter().filter(|(_, is_planned)| *is_planned).count() < planned as usize {
        looked.until = now;
    }
    let news: BTreeSet<i64> =
        taken.iter().filter(|(_, is_planned)| !is_planned).map(|(watch, _)| watch.schedule_id).collect();
    looked.after = news.last().copied().filter(|_| news.len() >= schedules as usize).unwrap_or(i64::MIN);
    taken.len()
}

/// Keeps what nobody looks at from piling up where no dispatcher serves.
pub fn thin(session: &Session) {
    const OF: i64 = 10_000;
    alert::thin(session, OF, MOST_RUNS as i64);
}

fn look_at(session: &Session, called: &[Called], now: Instant) {
    let ids: Vec<i64> = called.iter().map(|one| one.schedule_id).collect();
    let schedules = facts::schedules(session, ids.clone());
    let mut told = Told::default();
    // A pause resolves, also one that was over before anybody looked.
    let mut stays_open = |schedule_id: i64, open: facts::OpenAlert| {
        let is_resolved = open.was_silent && told.resolve(session, schedule_id, open.what.kind, now);
        (!is_resolved).then_some(open.what)
    };
    let open: HashMap<i64, Vec<Open>> = facts::open(session, ids)
        .into_iter()
        .map(|(id, all)| (id, all.into_iter().filter_map(|open| stays_open(id, open)).collect()))
        .collect();
    let open_of = |schedule_id: i64| open.get(&schedule_id).map_or(&[][..], Vec::as_slice);
    let wanted: Vec<Wanted> = called
        .iter()
        .filter_map(|one| wanted(one, schedules.get(&one.schedule_id)?, open_of(one.schedule_id)))
        .collect();
    let runs = if wanted.is_empty() { HashMap::new() } else { facts::runs(session, &wanted) };
    let (mut memories, mut forgotten) = (Vec::new(), Vec::new());
    for one in called {
        let open = open_of(one.schedule_id);
        let Some(schedule) = schedules.get(&one.schedule_id) else {
            for open in open {
                told.resolve(session, one.schedule_id, open.kind, now);
            }
            leave(session, one.schedule_id, &told, now);
            forgotten.push(one.schedule_id);
            continue;
        };
        let runs = runs.get(&one.schedule_id).map_or(&[][..], Vec::as_slice);
        match of_schedule(session, one, schedule, runs, open, &mut told, now) {
            Some(memory) => memories.push(memory),
            None => {
                leave(session, one.schedule_id, &told, now);
                forgotten.push(one.schedule_id);
            }
        }
    }
    alert::remember(session, &memories);
    alert::forget(session, forgotten);
    told.out(session, now);
}

/// Comes again to a schedule that is not looked at any more, where somebody has kept one of its alerts from being resolved.
fn leave(session: &Session, schedule_id: i64, told: &Told, now: Instant) {
    if told.locked == Some(schedule_id) {
        let again = Watch { schedule_id, execution_id: None, failed: false };
        alert::put_off(session, &[again], now.checked_add_micros(LOCKED).unwrap_or(Instant::MAX));
    }
}

/// Which runs of a schedule decide; `None` where none does.
fn wanted(called: &Called, schedule: &Schedule, open: &[Open]) -> Option<Wanted> {
    let has_failed = called.watches.iter().any(|watch| watch.failed);
    if !schedule.fires || (schedule.limits.is_none() && open.is_empty() && !has_failed) {
        return None;
    }
    let seen = schedule.seen.as_ref();
    let mut named: Vec<Uuid> = called.watches.iter().filter_map(|watch| watch.execution_id).collect();
    named.extend(seen.iter().flat_map(|seen| seen.unsettled.iter().copied()));
    named.extend(open.iter().filter_map(|open| open.run).map(execution_id));
    Some(Wanted {
        schedule_id: called.schedule_id,
        key: schedule.key,
        after: seen_until(schedule).map(convert::timestamp),
        most: MOST_RUNS as i64,
        named,
    })
}

/// Up to which plan time its runs were seen; `None` = the newest are looked at. An edit may have moved it into another scope, or its plan times
/// back.
fn seen_until(schedule: &Schedule) -> Option<Instant> {
    schedule.seen.as_ref().filter(|seen| seen.version == schedule.version).and_then(|seen| seen.plan_time)
}

/// The runs of a schedule that the next look is to look at again, and up to which plan time it need not look for others.
struct Progress {
    unsettled: Vec<Uuid>,
    seen_plan: Option<Instant>,
    /// There may be more that nobody has seen, and room for them.
    has_more: bool,
}

fn progress(schedule: &Schedule, runs: &[LedgerRun], coming: &[Instant], waits: bool, now: Instant) -> Progress {
    let before = seen_until(schedule);
    let next = || runs.iter().filter(|run| run.is_next);
    let is_full = before.is_some() && next().count() >= MOST_RUNS;
    // What was fired by its clock was fired in order. Of others a plan time says nothing of what its clock comes to.
    let last_planned = next().filter(|run| run.is_planned).map(|run| run.plan_time).max();
    let first_coming = coming.iter().map(|plan| plan.just_before()).min();
    let last = next()
        .map(|run| run.plan_time)
        .max()
        .filter(|_| is_full)
        .map(|last| first_coming.map_or(last, |first| first.min(last)));
    let all = (!is_full && !waits).then(|| first_coming.map_or(now, |first| first.min(now)));
    let mut seen_plan = [before, last_planned, last, all].into_iter().flatten().max();
    // Those that wait can run for too long, but they keep nobody from seeing what is late.
    let goes_on = || runs.iter().filter_map(|run| Some((run, run.run?)));
    let (waiting, counted): (Vec<_>, Vec<_>) = goes_on().partition(|(_, run)| run.stage == Stage::Waits);
    let left_out =
        counted.iter().skip(MOST_RUNS).find(|(run, _)| run.is_next).map(|(run, _)| run.plan_time.just_before());
    if let Some(left_out) = left_out {
        seen_plan = seen_plan.map(|seen| seen.min(left_out)).max(before);
    }
    let is_left = |run: &LedgerRun| left_out.is_some_and(|left_out| run.is_next && run.plan_time > left_out);
    let remembered = counted.iter().chain(&waiting).filter(|(run, _)| !is_left(run));
    Progress {
        unsettled: remembered.map(|(run, _)| run.execution_id).take(MOST_REMEMBERED).collect(),
        seen_plan,
        has_more: is_full && left_out.is_none() && seen_plan > before,
    }
}

/// Judges one schedule and writes what follows; what the next look is to know, `None` where there is none to come.
fn of_schedule(
    session: &Session,
    called: &Called,
    schedule: &Schedule,
    runs: &[LedgerRun],
    open: &[Open],
    told: &mut Told,
    now: Instant,
) -> Option<Memory> {
    let goes_on: Vec<Run> = runs.iter().filter_map(|run| run.run).collect();
    let failed = |id| called.watches.iter().any(|watch| watch.failed && watch.execution_id.map(run_id) == Some(id));
    let ends: Vec<End> = runs.iter().filter_map(|run| run.end).filter(|end| end.is_success || failed(end.id)).collect();
    let timer = schedule.timer.as_ref().filter(|timer| timer.is_applied);
    let state = match timer {
        _ if !schedule.fires => State::Silent,
        Some(timer) if timer.is_parked => State::Parked,
        Some(timer) if timer.error_count > 0 && timer.next_plan_time.is_some() => State::Failing,
        Some(_) | None => State::Fires,
    };
    let coming: Vec<Instant> =
        timer.iter().flat_map(|timer| [timer.next_plan_time, timer.buffered]).flatten().collect();
    let last_success = last_success(session, (called.schedule_id, schedule), &ends, open, now);
    let (mut transitions, next_look) = judge(&Situation {
        now,
        limits: schedule.limits,
        state,
        edited_at: schedule.edited_at,
        coming: if called.fires { &coming } else { &[] },
        waits: timer.is_none_or(|timer| timer.waits),
        last_success,
        runs: &goes_on,
        ends: &ends,
        open,
    });
    let mut locked = Vec::new();
    transitions.retain(|transition| match transition {
        Transition::Resolves(kind) => {
            let done = told.resolve(session, called.schedule_id, *kind, now);
            if !done {
                locked.push(*kind);
            }
            done
        }
        Transition::Opens(what) if locked.contains(&what.kind) => false,
        Transition::Opens(what) => {
            told.open(session, new_alert(called.schedule_id, schedule, *what, runs), schedule, now);
            true
        }
    });
    let remains = open.len() + count_opened(&transitions) > count_resolved(&transitions);
    if state == State::Silent || (schedule.limits.is_none() && !remains) {
        return None;
    }
    let next_look =
        next_look.into_iter().chain((!locked.is_empty()).then(|| now.checked_add_micros(LOCKED)).flatten()).min();
    let progress = progress(schedule, runs, &coming, timer.is_none_or(|timer| timer.waits), now);
    if progress.has_more {
        alert::look_at(session, [called.schedule_id]);
    }
    Some(Memory {
        schedule_id: called.schedule_id,
        version: schedule.version,
        seen_plan: progress.seen_plan.map(convert::timestamp),
        unsettled: progress.unsettled,
        last_success,
        next_look,
    })
}

fn count_opened(transitions: &[Transition]) -> usize {
    transitions.iter().filter(|transition| matches!(transition, Transition::Opens(_))).count()
}

fn count_resolved(transitions: &[Transition]) -> usize {
    transitions.iter().filter(|transition| matches!(transition, Transition::Resolves(_))).count()
}

/// When the last run of a schedule succeeded. What is seen by and by is enough until somebody would be told that there was none.
fn last_success(
    session: &Session,
    (schedule_id, schedule): (i64, &Schedule),
    ends: &[End],
    open: &[Open],
    now: Instant,
) -> Option<Instant> {
    let seen = schedule.seen.as_ref().and_then(|seen| seen.last_success);
    let known = ends.iter().filter(|end| end.is_success).map(|end| end.at).chain(seen).max();
    let since = schedule.edited_at.max(known.unwrap_or(schedule.edited_at));
    let is_missed = schedule
        .limits
        .expect_success_within
        .and_then(|limit| since.checked_add_micros(limit))
        .is_some_and(|at| at <= now);
    let is_asked = open.iter().any(|open| matches!(open.kind, Kind::Failed | Kind::NoSuccess));
    if schedule.fires && (is_missed || is_asked) {
        return known.max(facts::newest_success(session, schedule_id, schedule.key, MOST_RUNS as i64));
    }
    known
}

/// What is told of it.
fn new_alert<'a>(schedule_id: i64, schedule: &'a Schedule, what: Open, runs: &[LedgerRun]) -> NewAlert<'a> {
    let planned = what.plan_time.map_or_else(String::new, |plan| DateTime::Fixed(plan).to_string());
    let limit = |limit: Option<i64>| format!("{} s", limit.unwrap_or(0) as f64 / 1e6);
    let limits = &schedule.limits;
    let last_error = || schedule.timer.as_ref().and_then(|timer| timer.last_error.clone());
    let (message, detail) = match what.kind {
        Kind::Late if what.run.is_some() => {
            (format!("the run planned for {planned} has not begun {} after that", limit(limits.max_lateness)), None)
        }
        Kind::Late => (format!("the plan time {planned} was not fired {} after it", limit(limits.max_lateness)), None),
        Kind::Long => {
            (format!("the run planned for {planned} goes on for longer than {}", limit(limits.max_duration)), None)
        }
        Kind::NoSuccess => (format!("no run has succeeded for {}", limit(limits.expect_success_within)), None),
        Kind::Failed => {
            let run = runs.iter().find(|run| Some(run_id(run.execution_id)) == what.run);
            let (code, error) = run.map_or((None, None), |run| run.error.clone());
            let code = code.map_or_else(String::new, |code| format!(" ({code})"));
            (format!("the run planned for {planned} has failed for good{code}"), error)
        }
        Kind::Parked => {
            ("the schedule is parked: it fires nothing before somebody puts it right".to_owned(), last_error())
        }
        Kind::Failing => ("the schedule cannot be fired, and is tried again".to_owned(), last_error()),
    };
    let owner = schedule.owner.unwrap_or_else(|| role::extension().1);
    let detail = detail.filter(|detail| !detail.is_empty());
    NewAlert { schedule_id, schedule_name: &schedule.schedule_name, owner, what, message, detail }
}

/// An alert for a job.
struct Gift {
    job_name: String,
    alert_id: i64,
    payload: Jsonb,
    /// Who owns the job of the schedule.
    owner: Oid,
}

/// What has become of alerts, for those who are to hear of it.
#[derive(Default)]
struct Told {
    payloads: Vec<String>,
    /// What each alert_job is to be given.
    jobs: Vec<Gift>,
    /// The last schedule of which an alert could not be resolved now.
    locked: Option<i64>,
}

impl Told {
    fn open(&mut self, session: &Session, new: NewAlert, schedule: &Schedule, now: Instant) {
        let owner = new.owner;
        let Some((alert_id, payload)) = alert::open(session, new, now) else { return };
        self.payloads.push(format!("{alert_id} opened"));
        if let Some(name) = schedule.alert_job.as_ref().filter(|name| **name != schedule.job_name) {
            self.jobs.push(Gift { job_name: name.clone(), alert_id, payload, owner });
        }
    }

    /// False where somebody has the alert in hand.
    fn resolve(&mut self, session: &Session, schedule_id: i64, kind: Kind, now: Instant) -> bool {
        let resolved = alert::resolve(session, schedule_id, kind, now);
        match resolved {
            Some(alert_id) => self.payloads.push(format!("{alert_id} resolved")),
            None => self.locked = Some(schedule_id),
        }
        resolved.is_some()
    }

    /// Has all hear of it. A job that cannot be given its execution keeps no alert from being opened.
    fn out(self, session: &Session, now: Instant) {
        if !self.payloads.is_empty() && queue::notify::has_room() {
            alert::tell(session, self.payloads);
        }
        for gift in self.jobs {
            let (job_name, alert_id) = (gift.job_name.clone(), gift.alert_id);
            if let Err(failure) = subtransaction::run(|| enqueue(session, gift, now)) {
                let text =
                    format!("scheduler: job \"{job_name}\" could not be given alert {alert_id}: {}", failure.message);
                error::report(PgLogLevel::LOG_SERVER_ONLY, Failure::note(text));
            }
        }
    }
}

/// Gives an alert to a job. One that is gone (a superuser's hand) is given nothing. One whose owner is nobody that the owner of the schedule's job
/// can stand for, nor the other way round, is not the one that was meant: the name was free after a restore, and somebody has taken it.
fn enqueue(session: &Session, gift: Gift, now: Instant) {
    const SCOPE_KIND: &str = "alert";
    let Gift { ref job_name, alert_id, payload, owner } = gift;
    let Some(job) = job::read(session, job_name) else { return };
    if !role::may_act_for(owner, job.owner) && !role::may_act_for(job.owner, owner) {
        error::raise(Failure::new(
            PgSqlErrorCode::ERRCODE_INSUFFICIENT_PRIVILEGE,
            "neither the job's owner nor the owner of the schedule's job may act for the other",
            "Name another alert_job, or GRANT one of these roles to the other.",
        ));
    }
    let id = |draw: usize| if draw == 0 { alert_id.to_string() } else { format!("{alert_id}/{draw}") };
    let scope_id = or_raise(shard::draw(session, SCOPE_KIND, id));
    let batch = EnqueueBatch {
        job_name,
        scope_kind: SCOPE_KIND,
        caller: job.owner,
        keys: vec![ids::scope_key(job_name, SCOPE_KIND, &scope_id)],
        scope_ids: vec![scope_id],
        plan_times: vec![convert::timestamp(now)],
        payloads: vec![payload],
        run_ats: vec![None],
        priority: None,
    };
    let added = enqueue::insert(session, &batch, batch.caller, now).added;
    notify(session, added.queues);
    wake_for_first(added.first_due.into_iter());
}
