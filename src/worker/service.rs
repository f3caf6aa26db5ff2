//! A dispatcher at work. It sleeps until something is due or a commit wakes it, and then works in short transactions, each step on its
//! own, so that an error in one never starves the others.

use std::ffi::{CStr, CString};
use std::time::Duration;

use pgrx::prelude::*;
use pgrx::PgLogLevel;
use scheduler_core::{backoff, Instant};

use crate::convert;
use crate::error::{self, Failure};
use crate::guc;
use crate::worker::clock::Watch;
use crate::worker::duty::{self, Found, Told};
use crate::worker::here::{self, Here};
use crate::worker::seen::Seen;
use crate::worker::tick::{self, Interrupted, Tick};
use crate::worker::{hold, transaction, wake};

/// How long to wait for rights that are missing, in microseconds.
const LOOK_AGAIN: i64 = 1_000_000;

/// What a dispatcher remembers from one turn to the next.
pub struct Service<'b> {
    board: &'b wake::Dispatcher,
    database: u32,
    /// The database's name, from when the log was told that we started.
    name: Option<String>,
    tick: Tick,
    told: Told,
    clock: Watch,
    /// A commit may have come since the last tick.
    woken: bool,
    /// The log was told that our role may not dispatch.
    refused: bool,
    /// The extension was found here.
    settled: bool,
    /// How many looks failed, one after the other.
    failed_looks: i32,
    /// What was there to be seen before the last sleep.
    seen: Option<Seen>,
}

/// What follows a turn.
enum Next {
    Sleep {
        /// When to come again, as far as is known.
        until: Option<Instant>,
        seen: Option<Seen>,
    },
    /// Something came first.
    Again,
    End,
}

impl<'b> Service<'b> {
    pub fn new(board: &'b wake::Dispatcher, database: u32) -> Service<'b> {
        Service {
            board,
            database,
            name: None,
            tick: Tick::new(convert::now()),
            told: Told::default(),
            clock: Watch::begin(),
            woken: true,
            refused: false,
            settled: false,
            failed_looks: 0,
            seen: None,
        }
    }

    /// Works until there is nothing to do here any more.
    pub fn run(mut self) {
        super::set_application_name(c"scheduler dispatcher");
        super::pin_settings();
        loop {
            match self.turn() {
                Next::Sleep { until, seen } => self.sleep(until, seen),
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
        if hold::is_held(self.database) {
            return self.stop(": it makes way for a command");
        }
        match here::look() {
            Ok(Some(here)) => self.serve(&here),
            Ok(None) => {
                let end = self.stop("");
                self.board.leave();
                end
            }
            Err(_) if super::must_end() || hold::is_held(self.database) => Next::Again,
            // Who has locked the catalogs need not even have the extension: as one that could not connect.
            Err(failed) if failed.by_lock && !self.settled => {
                self.board.kept_out();
                Next::End
            }
            // The look itself failed, which says nothing: look again soon.
            Err(failed) => self.after_failed_look(here::LOOKING, &failed.message),
        }
    }

    fn serve(&mut self, here: &Here) -> Next {
        // As if we had died: the launcher misses us, and looks for the role that the setting names now.
        if !here.role_exists {
            return self.stop(": its role was dropped");
        }
        // Likewise, since that may be over by now: it is up to the launcher, which takes the slot back where nobody is to come.
        if !here.is_served {
            return self.stop("");
        }
        // Before anything is waited for here: who locks our tables keeps no other database from being looked into.
        if !std::mem::replace(&mut self.settled, true) {
            self.board.settled();
            super::pin_settings_to_serve();
        }
        let looks = here.may_dispatch && guc::enabled();
        let found = if looks { duty::look() } else { Ok(Found::Nothing) };
        // One that was sent to a copy leaves with a single line.
        if let Ok(Found::Copy(why)) = &found {
            duty::log(&here.name.to_string_lossy(), "stopped", why);
            self.board.leave();
            return Next::End;
        }
        let name = self.name.get_or_insert_with(|| {
            let name = here.name.to_string_lossy().into_owned();
            pgrx::log!("scheduler: dispatcher for database \"{name}\" started");
            name
        });
        self.refused &= !here.may_dispatch;
        let found = match found {
            Ok(found) => found,
            Err(_) if tick::was_interrupted(self.database) => return Next::Again,
            Err(message) => return self.after_failed_look(duty::LOOKING, &message),
        };
        self.failed_looks = 0;
        if looks {
            self.told.tell(name, &found);
        }
        if !here.may_dispatch {
            if !std::mem::replace(&mut self.refused, true) {
                say_refused(name);
            }
            return Next::Sleep { until: convert::now().checked_add_micros(LOOK_AGAIN), seen: None };
        }
        let until = match found {
            Found::Work => {
                if self.clock.look(name) {
                    self.tick = Tick::new(convert::now());
                    self.woken = true;
                }
                match self.tick.run(self.database, name, std::mem::take(&mut self.woken)) {
                    Ok(until) => until,
                    Err(Interrupted) => {
                        self.woken = true;
                        return Next::Again;
                    }
                }
            }
            // (A copy was left above.)
            Found::Nothing | Found::Obstacle(_) | Found::Copy(_) => None,
        };
        Next::Sleep { until, seen: here.seen }
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
        Next::Sleep { until: convert::now().checked_add_micros(pause), seen: None }
    }

    fn sleep(&mut self, until: Option<Instant>, seen: Option<Seen>) {
        let (slept, now) = (std::time::Instant::now(), convert::now());
        // A transaction has ended for those who look before they hear what it did to catalogs. The second look has heard it.
        let seen_twice = seen.filter(|_| seen == self.seen);
        self.seen = seen;
        self.woken |= doze(self.board, until, seen_twice);
        // Whatever is committed meanwhile: each failed look is a line in the log.
        let pause =
            until.map_or(0, |until| until.as_micros().saturating_sub(now.as_micros()).clamp(0, guc::tick_interval()));
        let pause = Duration::from_micros(pause.unsigned_abs());
        while self.failed_looks > 0 && slept.elapsed() < pause && !tick::interrupted(self.database) {
            super::sleep_for(pause.saturating_sub(slept.elapsed()));
        }
    }
}

/// Sleeps until `next`; until a commit wakes us, or one may have come of which nobody told, which is true then.
fn doze(board: &wake::Dispatcher, next: Option<Instant>, seen: Option<Seen>) -> bool {
    loop {
        let began = tick::now();
        let now = began.wall;
        let longest = now.checked_add_micros(guc::tick_interval()).unwrap_or(Instant::MAX);
        let wake = next.map_or(longest, |next| next.min(longest));
        board.sleeping_until(wake);
        if !guc::enabled() {
            super::report_idle(c"switched off by sched.enabled");
        } else if wake > now {
            super::report_idle(&asleep_until(wake));
        }
        if super::sleep_until(wake, now) {
            return true;
        }
        if wake != longest {
            return false;
        }
        // First: who writes after what we ask now wakes us.
        board.awake();
        // `next` is a time by the clock that it was computed by.
        if super::must_end() || began.was_set_until(tick::now()) || !seen.is_some_and(Seen::is_all) {
            return true;
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
