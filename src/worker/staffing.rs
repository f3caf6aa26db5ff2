//! What a dispatcher does for SQL jobs: it has the postmaster fork runners for those for whom something waits, terminates those that do not end,
//! and ends the runs of those that are gone. It waits for none of them.

use std::collections::HashMap;
use std::time::{Duration, Instant as Moment};

use pgrx::datum::Uuid;
use pgrx::pg_sys::{self, Oid};
use pgrx::{PgLogLevel, PgSqlErrorCode};
use scheduler_core::Instant;

use crate::dispatch;
use crate::execute::timeout;
use crate::guc;
use crate::pg::error::{self, Failure};
use crate::pg::login_rows::LoginRows;
use crate::pg::{convert, Session};
use crate::shmem::registry::{rest, runner_news};
use crate::shmem::runners::runs::{self, Whereabouts};
use crate::shmem::runners::{self, shares, Limits};
use crate::store::runner::{self as store, OwnerWaiting};
use crate::worker::run_rights::may_run;
use crate::worker::runner;

/// How soon to ask the postmaster again that had no slot, in microseconds: nobody tells us when one is free.
const NO_SLOT: i64 = 250_000;
/// How long the log says nothing more of slots that are missing now and then.
const TOLD_EVERY: Duration = Duration::from_secs(60);
/// How soon to look again at what runners were claiming, in microseconds.
const CLAIMED: i64 = 2_000;
/// How soon to look again at what others have in hand, or whose turn comes, in microseconds.
const LOOK_AGAIN: i64 = 1_000_000;
/// The pause after the first runner of an owner that did not come as far as connecting; each is twice as long as the one before,
const FIRST_PAUSE: Duration = Duration::from_millis(50);
/// but no longer than this.
const LONGEST_PAUSE: Duration = Duration::from_secs(30);

/// Runners of an owner that could not connect, one after the other.
struct Starts {
    failures: u32,
    not_before: Moment,
}

/// What a dispatcher remembers of runners. When it begins it knows nothing, and looks.
pub struct Staffing {
    /// When to look who waits; `None` = when somebody says so.
    start_at: Option<Instant>,
    /// When to look whose runner is gone.
    end_at: Option<Instant>,
    /// When both were last looked for although nobody had said so.
    looked_unasked: Moment,
    starts: HashMap<u32, Starts>,
    /// The log was told that there is no slot.
    short_of_slots: bool,
    /// When the log was told so last.
    told_of_slots: Option<Moment>,
    /// How many runners there could be when it last looked who waits.
    limits: Limits,
}

impl Default for Staffing {
    fn default() -> Staffing {
        let start_at = Some(Instant::MIN);
        Staffing {
            start_at,
            end_at: Some(Instant::MIN),
            looked_unasked: Moment::now(),
            starts: HashMap::new(),
            short_of_slots: false,
            told_of_slots: None,
            limits: Limits::default(),
        }
    }
}

fn database() -> u32 {
    // SAFETY: reads a global of the process.
    unsafe { pg_sys::MyDatabaseId.to_u32() }
}

/// How many runners there may be where a database waits for a dispatcher.
pub const MOST_IN_WANT: usize = 2;

/// How many runners there may be: where a database waits for a dispatcher two, of two roles. What is due fires first, and runs of any length leave a
/// slot for the dispatchers to take turns in.
fn limits() -> Limits {
    let limits = runner::limits();
    if rest::is_database_waiting() {
        return Limits { most: limits.most.min(MOST_IN_WANT), per_role: limits.per_role.min(1), ..limits };
    }
    limits
}

fn earliest(one: Option<Instant>, other: Option<Instant>) -> Option<Instant> {
    [one, other].into_iter().flatten().min()
}

impl Staffing {
    /// To be said at each tick: what is committed and told to nobody (PREPARE TRANSACTION) is looked for now and then.
    pub fn look_unasked(&mut self) {
        if self.looked_unasked.elapsed() >= Duration::from_micros(guc::tick_interval().unsigned_abs()) {
            self.looked_unasked = Moment::now();
            (self.start_at, self.end_at) = (Some(Instant::MIN), Some(Instant::MIN));
        }
    }

    /// When somebody may be waiting for a runner.
    pub fn next_start(&self) -> Option<Instant> {
        // Who waits for a place that a reload has made waits no longer.
        if runner_news::of(database()).wanted || self.limits_have_grown() {
            Some(Instant::MIN)
        } else {
            self.start_at
        }
    }

    /// When a run may have lost its runner, or a runner is to be terminated.
    pub fn next_end(&self) -> Option<Instant> {
        if runner_news::of(database()).lost {
            return Some(Instant::MIN);
        }
        earliest(self.end_at, runs::next_termination(database()))
    }

    /// Starts runners, or wakes them, for those for whom something waits; how many. Executions that nobody can run as their owner fail,
    /// up to `limit` of each.
    pub fn start_runners(&mut self, session: &Session, limit: i64) -> usize {
        runner_news::take_runners_wanted(database());
        self.start_at = None;
        let (now, limits) = (convert::now(), limits());
        self.limits = limits;
        // Before the look: what is claimed after this it may have seen as waiting.
        let claims = runners::claims();
        let waiting = store::owners_waiting(session, limits.most.min(limits.per_role).max(1));
        for owner in runners::take_failed(database()) {
            let before = self.starts.get(&owner).map_or(0, |starts| starts.failures);
            let pause = FIRST_PAUSE.saturating_mul(1 << before.min(16)).min(LONGEST_PAUSE);
            self.starts.insert(owner, Starts { failures: before.saturating_add(1), not_before: Moment::now() + pause });
        }
        self.starts.retain(|owner, _| waiting.iter().any(|waiting| waiting.owner.to_u32() == *owner));
        let (mut done, mut in_line, mut has_slots) = (0, Vec::new(), None);
        for OwnerWaiting { owner, count } in waiting {
            if let Err(reason) = may_run(owner) {
                done += dispatch::refuse(session, owner, &reason, limit, now);
                self.start_again(now, LOOK_AGAIN.min(1));
                continue;
            }
            let crew = runners::crew(database(), owner.to_u32(), claims, now);
            let needed = count.saturating_sub(crew.looking + crew.claiming);
            if crew.claiming > 0 && count > crew.looking && shares::has_place(owner.to_u32(), limits) {
                self.start_again(now, CLAIMED);
            }
            let woken = runners::wake(database(), owner.to_u32(), needed, now);
            let (started, in_need) = self.start_for(owner, needed - woken, crew.arrived > 0, now, &mut has_slots);
            done += woken + started;
            if in_need {
                in_line.push(owner.to_u32());
            }
            // Who was to see to it may have been stopped, or never forked.
            if limits.most > 0 {
                self.start_again(now, LOOK_AGAIN);
            }
        }
        runners::set_waiting(database(), &in_line, limits);
        if let Some(has_slots) = has_slots {
            self.log_slots(has_slots);
        }
        done
    }

    /// Starts up to `needed` runners; how many, and whether more would start if there were places. `has_slots` says whether all of them got a
    /// worker slot, where one was asked for.
    fn start_for(
        &mut self,
        owner: Oid,
        needed: usize,
        arrived: bool,
        now: Instant,
        has_slots: &mut Option<bool>,
    ) -> (usize, bool) {
        if arrived {
            self.starts.remove(&owner.to_u32());
        }
        if needed == 0 {
            return (0, false);
        }
        let moment = Moment::now();
        if let Some(starts) = self.starts.get(&owner.to_u32()).filter(|starts| starts.not_before > moment) {
            let pause = starts.not_before.duration_since(moment);
            self.start_again(now, i64::try_from(pause.as_micros()).unwrap_or(i64::MAX).saturating_add(1));
            return (0, false);
        }
        let mut started = 0;
        // Before the processes are there: what changes while they connect they find changed.
        let login = LoginRows::try_read(Oid::from(database()), owner);
        while started < needed {
            let Some(seat) = runners::reserve(database(), owner.to_u32(), self.limits, login, now) else {
                break;
            };
            if runner::start(seat).is_none() {
                runners::give_back(seat);
                *has_slots = Some(false);
                rest::slot_is_lacking();
                self.start_again(now, NO_SLOT);
                break;
            }
            has_slots.get_or_insert(true);
            started += 1;
        }
        (started, started < needed)
    }

    fn limits_have_grown(&self) -> bool {
        let now = limits();
        now.most > self.limits.most || now.per_role > self.limits.per_role
    }

    fn start_again(&mut self, now: Instant, pause: i64) {
        self.start_at = earliest(self.start_at, now.checked_add_micros(pause));
    }

    /// Says once that there is no slot, and once that there is one again.
    fn log_slots(&mut self, has_slots: bool) {
        // Where there are slots now and then, each change is no news.
        let is_news = || self.told_of_slots.is_none_or(|told| told.elapsed() >= TOLD_EVERY);
        if has_slots != self.short_of_slots || !has_slots && !is_news() {
            return;
        }
        self.short_of_slots = !has_slots;
        if has_slots {
            pgrx::log!("scheduler: runners of SQL jobs can be started again");
        } else {
            self.told_of_slots = Some(Moment::now());
            let failure = Failure::new(
                PgSqlErrorCode::ERRCODE_WARNING,
                "scheduler: no worker slot is free for a runner of SQL jobs; their executions wait",
                "Raise max_worker_processes, or lower sched.max_sql_runners; the scheduler goes on by itself.",
            );
            error::report(PgLogLevel::WARNING, failure);
        }
    }

    /// Terminates runners whose time is over, and ends the runs of those that are gone; how many.
    pub fn end_lost_runs(&mut self, session: &Session) -> usize {
        runner_news::take_run_lost(database());
        self.end_at = None;
        let now = convert::now();
        runs::terminate_overdue(database(), now);
        let runs = store::runs(session);
        if runs.is_empty() {
            return 0;
        }
        // A cancel that was prepared (PREPARE TRANSACTION) is told by nobody.
        for (execution, _) in runs.iter().filter(|(_, is_cancelled)| *is_cancelled) {
            runs::cancel(database(), *execution, now.as_micros(), guc::cancel_grace());
        }
        let is_gone = |execution: Uuid| runs::whereabouts(database(), execution) != Whereabouts::Running;
        let gone: Vec<Uuid> = runs.iter().map(|run| run.0).filter(|execution| is_gone(*execution)).collect();
        let count = gone.len();
        let again = if count == 0 { guc::tick_interval() } else { LOOK_AGAIN };
        self.end_at = now.checked_add_micros(again);
        if count == 0 {
            return 0;
        }
        // Locked first: a runner writes itself down before others can see its lease, and off after they can see that there is none.
        let locked = store::lock_runs(session, gone);
        let (mut lost, mut timed_out, mut failed) = (Vec::new(), Vec::new(), Vec::new());
        for run in locked {
            match runs::whereabouts(database(), run.execution_id) {
                Whereabouts::Running => {}
                Whereabouts::TimedOut => timed_out.push(run),
                Whereabouts::TransactionTimedOut => failed.push(run),
                Whereabouts::Lost => lost.push(run),
            }
        }
        let lost = dispatch::end_lost(session, &lost, "worker_lost", "the process that ran it is gone", now);
        let message = "the run did not end at its run_timeout, and its process was terminated";
        let timed_out = dispatch::end_lost(session, &timed_out, "run_timeout", message, now);
        // As the server says it.
        let message = "terminating connection due to transaction timeout";
        lost + timed_out + dispatch::end_failed(session, &failed, timeout::TRANSACTION_TIMEOUT, message, now)
    }
}
