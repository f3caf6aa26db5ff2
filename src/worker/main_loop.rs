//! A dispatcher at work. It sleeps until something is due or a commit wakes it, and then works in short transactions, each step on its
//! own, so that an error in one never starves the others.

use std::ffi::{CStr, CString};
use std::time::Duration;

use pgrx::prelude::*;
use pgrx::PgLogLevel;
use scheduler_core::runtime::backoff;
use scheduler_core::Instant;

use crate::guc;
use crate::pg::convert;
use crate::pg::error::{self, Failure};
use crate::shmem::registry::{marks, rest};
use crate::shmem::{exclusion, registry, runners};
use crate::worker::attempt::{self, Interrupted};
use crate::worker::clock::ClockWatch;
use crate::worker::notifier;
use crate::worker::probe::{self, DispatchSwitch, Probe};
use crate::worker::readiness::{self, LogOnce, Readiness};
use crate::worker::tick::{self, Tick};
use crate::worker::transaction;
use crate::worker::xid_watermark::XidWatermark;

/// How long to wait for rights that are missing, in microseconds.
const LOOK_AGAIN: i64 = 1_000_000;

/// What a dispatcher remembers from one turn to the next.
pub struct MainLoop<'b> {
    board: &'b registry::Dispatcher,
    database: u32,
    /// The database's name, from when the log was told that we started.
    name: Option<String>,
    tick: Tick,
    /// When this process began to serve.
    since: std::time::Instant,
    log_once: LogOnce,
    clock: ClockWatch,
    dispatch: DispatchSwitch,
    /// A commit may have come since the last tick.
    woken: bool,
    /// The log was told that our role may not dispatch.
    refused: bool,
    /// The extension was found here.
    settled: bool,
    /// How many looks failed, one after the other.
    failed_looks: i32,
    /// What was there to be seen before the last sleep, and since when it was the same.
    watermark: Option<(XidWatermark, std::time::Instant)>,
}

/// What follows a turn.
enum Next {
    Sleep {
        /// When to come again, as far as is known.
        until: Option<Instant>,
        watermark: Option<XidWatermark>,
    },
    /// Something came first.
    Again,
    End,
}

impl<'b> MainLoop<'b> {
    pub fn new(board: &'b registry::Dispatcher, database: u32) -> MainLoop<'b> {
        MainLoop {
            board,
            database,
            name: None,
            tick: Tick::new(convert::now()),
            since: std::time::Instant::now(),
            log_once: LogOnce::default(),
            clock: ClockWatch::begin(),
            dispatch: DispatchSwitch::unread(),
            woken: true,
            refused: false,
            settled: false,
            failed_looks: 0,
            watermark: None,
        }
    }

    /// Works until there is nothing to do here any more.
    pub fn run(mut self) {
        super::set_application_name(c"scheduler dispatcher");
        super::pin_settings();
        loop {
            match self.turn() {
                Next::Sleep { until, watermark } => {
                    if watermark.is_some() && self.rests() {
                        return;
                    }
                    self.sleep(until, watermark);
                }
                Next::Again => {}
                Next::End => return,
            }
        }
    }

    fn turn(&mut self) -> Next {
        self.board.awake();
        super::reload_settings();
        if super::must_end() {
            return self.stop("");
        }
        if exclusion::is_excluded(self.database) {
            return self.stop(": it makes way for a command");
        }
        match probe::run(self.dispatch.is_stale()) {
            Ok(Some(probe)) => self.serve(&probe),
            Ok(None) => {
                let end = self.stop("");
                self.board.leave();
                end
            }
            Err(_) if super::must_end() || exclusion::is_excluded(self.database) => Next::Again,
            // Who has locked the catalogs need not even have the extension: as one that could not connect.
            Err(failed) if failed.by_lock && !self.settled => {
                self.board.kept_out();
                Next::End
            }
            // The look itself failed, which says nothing: look again soon.
            Err(failed) => self.after_failed_look(probe::LOOKING, &failed.message),
        }
    }

    fn serve(&mut self, probe: &Probe) -> Next {
        // As if we had died: the launcher misses us, and looks for the role that the setting names now.
        if !probe.role_exists {
            return self.stop(": its role was dropped");
        }
        // Likewise, since that may be over by now: it is up to the launcher, which takes the slot back where nobody is to come.
        if !probe.is_served {
            return self.stop("");
        }
        // Before anything is waited for here: who locks our tables keeps no other database from being looked into.
        if !std::mem::replace(&mut self.settled, true) {
            self.board.settled();
            super::pin_settings_to_serve();
        }
        let looks = probe.may_dispatch && guc::enabled();
        let found = if looks { readiness::check() } else { Ok(Readiness::Nothing) };
        // One that was sent to a copy, or to a database in test mode, leaves with a single line.
        if let Ok(Readiness::Leave(why)) = &found {
            readiness::log(&probe.name.to_string_lossy(), "stopped", why);
            self.board.leave();
            return Next::End;
        }
        let name = self.name.get_or_insert_with(|| {
            let name = probe.name.to_string_lossy().into_owned();
            if self.board.has_resumed() {
                pgrx::debug1!("scheduler: dispatcher for database \"{name}\" is back");
            } else {
                pgrx::log!("scheduler: dispatcher for database \"{name}\" started");
            }
            name
        });
        self.refused &= !probe.may_dispatch;
        let found = match found {
            Ok(found) => found,
            Err(_) if attempt::was_interrupted(self.database) => return Next::Again,
            Err(message) => return self.after_failed_look(readiness::LOOKING, &message),
        };
        self.failed_looks = 0;
        if looks {
            self.log_once.update(name, &found);
        }
        if !probe.may_dispatch {
            if !std::mem::replace(&mut self.refused, true) {
                say_refused(name);
            }
            return Next::Sleep { until: convert::now().checked_add_micros(LOOK_AGAIN), watermark: None };
        }
        let until = match found {
            Readiness::Work => {
                if self.clock.look(name) {
                    self.tick = Tick::new(convert::now());
                    self.woken = true;
                }
                let fires = self.dispatch.update(probe);
                match self.tick.run(self.database, name, std::mem::take(&mut self.woken), fires) {
                    Ok(until) => until,
                    Err(Interrupted) => {
                        self.woken = true;
                        return Next::Again;
                    }
                }
            }
            // (A copy, and one in test mode, was left above.)
            Readiness::Nothing | Readiness::Obstacle(_) | Readiness::Leave(_) => {
                self.tick.urgent = None;
                None
            }
        };
        Next::Sleep { until, watermark: probe.watermark }
    }

    /// Ends, and says so where it was said that we started.
    fn stop(&self, why: &str) -> Next {
        if let Some(name) = &self.name {
            pgrx::log!("scheduler: dispatcher for database \"{name}\" stopped{why}");
        }
        Next::End
    }

    /// Looks again after growing pauses, as long as a tick at most.
    fn after_failed_look(&mut self, what: &CStr, message: &str) -> Next {
        transaction::log(what, message);
        self.failed_looks = self.failed_looks.saturating_add(1);
        let pause = backoff::after_fire_failures(self.failed_looks);
        Next::Sleep { until: convert::now().checked_add_micros(pause), watermark: None }
    }

    /// Whether this process leaves because others need its worker slot: nothing is to be done here for a while, or it is another's turn.
    fn rests(&self) -> bool {
        let (now, until) = (convert::now(), self.tick.urgent);
        let earliest = now.checked_add_micros(rest::LEAST);
        let is_idle = until.is_none_or(|until| Some(until) > earliest)
            && !self.woken
            && self.failed_looks == 0
            && guc::enabled()
            && notifier::next(self.database, now).is_none()
            && !marks::has_marked(self.database)
            && !runners::has_any(self.database);
        let longest = now.checked_add_micros(rest::MOST).unwrap_or(Instant::MAX);
        // Before the question: who needs the slot later finds that we are idle, and wakes us.
        self.board.idle_until(if is_idle { until.unwrap_or(Instant::MAX) } else { Instant::MIN });
        let makes_room = if is_idle { rest::is_to_rest() } else { rest::is_turn_over(self.since.elapsed()) };
        let back = if is_idle { until.map_or(longest, |until| until.min(longest)) } else { now };
        let rests = makes_room && (self.board.rest(back) || !is_idle);
        if rests {
            pgrx::debug1!("scheduler: the dispatcher gives its worker slot to others");
        }
        rests
    }

    fn sleep(&mut self, until: Option<Instant>, watermark: Option<XidWatermark>) {
        let (slept, now) = (std::time::Instant::now(), convert::now());
        // A transaction has ended for those who look before they hear what it did to catalogs. A look that comes so much later has heard it,
        // and has looked for what is looked for now and then only.
        let since = |watermark: &XidWatermark| {
            self.watermark.filter(|(known, _)| known == watermark).map_or(slept, |known| known.1)
        };
        self.watermark = watermark.map(|watermark| (watermark, since(&watermark)));
        let tick = Duration::from_micros(guc::tick_interval().unsigned_abs());
        let confirmed = self.watermark.filter(|(_, since)| since.elapsed() >= tick).map(|(watermark, _)| watermark);
        self.woken |= doze(self.board, self.database, until, confirmed);
        // Whatever is committed meanwhile: each failed look is a line in the log.
        let pause =
            until.map_or(0, |until| until.as_micros().saturating_sub(now.as_micros()).clamp(0, guc::tick_interval()));
        let pause = Duration::from_micros(pause.unsigned_abs());
        while self.failed_looks > 0 && slept.elapsed() < pause && !attempt::interrupted(self.database) {
            super::sleep_for(pause.saturating_sub(slept.elapsed()));
        }
    }
}

/// Sleeps until `next`; until a commit wakes us, or one may have come of which nobody told, which is true then.
fn doze(board: &registry::Dispatcher, database: u32, next: Option<Instant>, watermark: Option<XidWatermark>) -> bool {
    loop {
        let began = tick::now();
        let now = began.wall;
        let longest = now.checked_add_micros(guc::tick_interval()).unwrap_or(Instant::MAX);
        let wake = next.map_or(longest, |next| next.min(longest));
        board.sleeping_until(wake);
        let said = if guc::enabled() { asleep_until(wake) } else { c"switched off by sched.enabled".to_owned() };
        if doze_and_notify(board, database, wake, &said) {
            return true;
        }
        if wake != longest {
            return false;
        }
        // First: who writes after what we ask now wakes us.
        board.awake();
        // One that had something to send or a runner when it went to sleep is not known to be idle: it looks whether it can rest by now.
        // And where a database waits one may leave with work to do.
        if rest::is_wanted() || rest::is_database_waiting() {
            return true;
        }
        // `next` is a time by the clock that it was computed by.
        if super::must_end() || began.was_set_until(tick::now()) || !watermark.is_some_and(XidWatermark::is_current) {
            return true;
        }
    }
}

/// Sleeps until `wake`, and sends notifications meanwhile; whether something else than these woke us.
fn doze_and_notify(board: &registry::Dispatcher, database: u32, wake: Instant, said: &CStr) -> bool {
    let (began, longest) = (std::time::Instant::now(), wake.as_micros().saturating_sub(convert::now().as_micros()));
    let longest = Duration::from_micros(u64::try_from(longest).unwrap_or(0));
    loop {
        notifier::send(database);
        let now = convert::now();
        if wake > now {
            super::report_idle(said);
        }
        let next = notifier::next(database, now).filter(|next| *next < wake);
        let woken = super::sleep_until(next.unwrap_or(wake), now);
        let by_marks = next.is_some() || marks::has_marked(database);
        if woken && (!by_marks || board.is_called() || attempt::interrupted(database)) {
            return true;
        }
        // A clock that was set back makes no sleep longer.
        if !woken && next.is_none() || began.elapsed() >= longest {
            return false;
        }
    }
}

/// What pg_stat_activity shows meanwhile.
fn asleep_until(wake: Instant) -> CString {
    // SAFETY: a static buffer of Postgres, copied at once.
    let time = unsafe { CStr::from_ptr(pg_sys::timestamptz_to_str(wake.as_micros())) };
    CString::new([b"asleep until ", time.to_bytes()].concat()).unwrap_or_default()
}

/// Once, until all is well.
fn say_refused(database: &str) {
    let role = guc::worker_role().unwrap_or_default();
    let failure = Failure::new(
        PgSqlErrorCode::ERRCODE_WARNING,
        format!(
            "scheduler: role \"{}\" of sched.worker_role may not dispatch in database \"{database}\"",
            role.to_string_lossy()
        ),
        "Call sched.grant_worker for it there, as a superuser; the scheduler goes on by itself.",
    );
    error::report(PgLogLevel::WARNING, failure);
}
