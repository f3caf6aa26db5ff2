//! The dispatcher of one database. It sleeps until something is due or a commit wakes it, and then works in short
//! transactions, each step on its own, so that an error in one never starves the others.

use std::ffi::{c_int, CStr, CString};
use std::sync::atomic::{AtomicBool, Ordering::Relaxed};
use std::time::Duration;

use pgrx::bgworkers::BackgroundWorkerBuilder;
use pgrx::prelude::*;
use pgrx::PgLogLevel;
use scheduler_core::{backoff, Instant};

use crate::compat;
use crate::convert;
use crate::error::{self, Failure};
use crate::guc;
use crate::store::catalog;
use crate::store::role;
use crate::subtransaction;
use crate::worker::duty::{self, Found, Told};
use crate::worker::seen::Seen;
use crate::worker::tick::{self, Interrupted, Tick};
use crate::worker::{hold, launcher, transaction, wake};

/// How long to wait for rights that are missing, in microseconds.
const LOOK_AGAIN: i64 = 1_000_000;
const LOOKING: &CStr = c"looking for the extension";

/// Database and role in what the postmaster hands over: one number.
fn argument(database: pg_sys::Oid, role: pg_sys::Oid) -> pg_sys::Datum {
    pg_sys::Datum::from(u64::from(role.to_u32()) << 32 | u64::from(database.to_u32()))
}

/// Asks the postmaster for a dispatcher in this database that works as `role` (0: as a superuser); false where no worker slot
/// is free. The caller's latch is set when it has come and when its slot is free again.
pub fn start(database: pg_sys::Oid, role: pg_sys::Oid) -> bool {
    // SAFETY: reads a global of the process.
    let caller = unsafe { pg_sys::MyProcPid };
    BackgroundWorkerBuilder::new("scheduler dispatcher")
        .set_type("scheduler dispatcher")
        .set_library("scheduler")
        .set_function("scheduler_dispatcher_main")
        .set_argument(Some(argument(database, role)))
        .set_restart_time(None)
        .set_notify_pid(caller)
        .enable_spi_access()
        .load_dynamic()
        .is_ok()
}

/// Entry point; the postmaster calls it in a new process.
#[pg_guard]
#[unsafe(no_mangle)]
pub extern "C-unwind" fn scheduler_dispatcher_main(argument: pg_sys::Datum) {
    super::attach_signals();
    subtransaction::in_a_dispatcher();
    let both = argument.value() as u64;
    let (database, role) = (both as u32, pg_sys::Oid::from((both >> 32) as u32));
    // SAFETY: registers a callback of this process, whose argument is a number.
    let pid = unsafe {
        pg_sys::before_shmem_exit(Some(on_exit), pg_sys::Datum::from(database));
        pg_sys::MyProcPid
    };
    let Some(board) = wake::Dispatcher::enter(database, pid) else { return };
    // One that makes way is missed: the launcher sends another when the hold is over.
    let entry = if hold::is_held(database) { Entry::Held } else { connect(database, role) };
    // As one that could not connect: the launcher tries again after growing pauses.
    if entry == Entry::Locked {
        return board.kept_out();
    }
    board.reached();
    if entry == Entry::Connected {
        run(&board, database);
    }
}

/// What came of connecting.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Entry {
    Connected,
    /// Somebody wants the database to himself.
    Held,
    /// Somebody has a lock on it, for long.
    Locked,
}

/// Connects as `role`, or as the first superuser where that is 0.
fn connect(database: u32, role: pg_sys::Oid) -> Entry {
    super::pin_settings_to_connect();
    // SAFETY: once in the life of the process. After an error there is nothing to do but exit, which ends the transaction.
    let entry = PgTryBuilder::new(|| unsafe {
        compat::connect(pg_sys::Oid::from(database), role);
        Entry::Connected
    })
    .catch_when(PgSqlErrorCode::ERRCODE_LOCK_NOT_AVAILABLE, |_| Entry::Locked)
    .catch_others(|error| {
        if hold::is_held(database) {
            return Entry::Held;
        }
        error.rethrow()
    })
    .execute();
    if role != pg_sys::Oid::INVALID {
        role::keep_own();
    } else if entry == Entry::Connected {
        // session_authorization is a setting as well, which may be another's here only because we are a superuser.
        // SAFETY: puts back whom we connected as.
        unsafe { pg_sys::SetSessionAuthorization(pg_sys::GetAuthenticatedUserId(), true) }
    }
    entry
}

#[pg_guard]
unsafe extern "C-unwind" fn on_exit(_code: c_int, database: pg_sys::Datum) {
    wake::dispatcher_left(database.value() as u32, pg_sys::MyProcPid);
}

fn run(board: &wake::Dispatcher, database: u32) {
    super::set_application_name(c"scheduler dispatcher");
    super::pin_settings();
    let mut name: Option<String> = None;
    let mut tick = Tick::new(convert::now());
    let mut told = Told::default();
    let mut woken = true;
    let mut refused = false;
    let mut failed_looks = 0;
    let mut seen_before = None;
    let (mut settled, locked) = (false, AtomicBool::new(false));
    let stopped = |name: &Option<String>, why: &str| {
        if let Some(name) = name {
            pgrx::log!("scheduler: dispatcher for database \"{name}\" stopped{why}");
        }
    };
    loop {
        board.awake();
        super::reload_settings();
        if super::must_end() {
            return stopped(&name, "");
        }
        if hold::is_held(database) {
            return stopped(&name, ": it makes way for a command");
        }
        let looked = transaction::attempt(LOOKING, || look(&locked));
        let now = convert::now();
        let mut seen = None;
        let next = match &looked {
            // As if we had died: the launcher misses us, and looks for the role that the setting names now.
            Ok(Some(here)) if !here.role_exists => return stopped(&name, ": its role was dropped"),
            // Likewise, since that may be over by now: it is up to the launcher, which takes the slot back where nobody is to come.
            Ok(Some(here)) if !here.is_served => return stopped(&name, ""),
            Ok(Some(here)) => {
                // Before anything is waited for here: who locks our tables keeps no other database from being looked into.
                if !std::mem::replace(&mut settled, true) {
                    board.settled();
                    super::pin_settings_to_serve();
                }
                let looks = here.may_dispatch && guc::enabled();
                let found = if looks { duty::look() } else { Ok(Found::Nothing) };
                // One that was sent to a copy leaves with a single line.
                if let Ok(Found::Copy(why)) = &found {
                    duty::log(&here.name.to_string_lossy(), "stopped", why);
                    return board.leave();
                }
                let name = name.get_or_insert_with(|| {
                    let name = here.name.to_string_lossy().into_owned();
                    pgrx::log!("scheduler: dispatcher for database \"{name}\" started");
                    name
                });
                if let Ok(found) = &found {
                    failed_looks = 0;
                    if looks {
                        told.tell(name, found);
                    }
                }
                if here.may_dispatch {
                    refused = false;
                    seen = here.seen.filter(|_| found.is_ok());
                    match found {
                        Ok(Found::Work) => match tick.run(database, name, std::mem::take(&mut woken)) {
                            Ok(wake) => wake,
                            Err(Interrupted) => {
                                woken = true;
                                continue;
                            }
                        },
                        Ok(Found::Nothing | Found::Obstacle(_) | Found::Copy(_)) => None,
                        Err(_) if tick::was_interrupted(database) => continue,
                        Err(message) => {
                            transaction::log(duty::LOOKING, &message);
                            after_failure(&mut failed_looks, now)
                        }
                    }
                } else {
                    if !std::mem::replace(&mut refused, true) {
                        say_refused(name);
                    }
                    now.checked_add_micros(LOOK_AGAIN)
                }
            }
            Ok(None) => {
                stopped(&name, "");
                return board.leave();
            }
            Err(_) if super::must_end() || hold::is_held(database) => continue,
            // Who has locked the catalogs need not even have the extension: as one that could not connect.
            Err(_) if !settled && locked.load(Relaxed) => return board.kept_out(),
            // The look itself failed, which says nothing: look again soon.
            Err(message) => {
                transaction::log(LOOKING, message);
                after_failure(&mut failed_looks, now)
            }
        };
        let slept = std::time::Instant::now();
        let now = convert::now();
        // A transaction has ended for those who look before they hear what it did to catalogs. The second look has heard it.
        let seen_twice = seen.filter(|_| seen == seen_before);
        seen_before = seen;
        woken |= sleep(board, next, seen_twice);
        // Whatever is committed meanwhile: each failed look is a line in the log.
        let pause =
            next.map_or(0, |next| next.as_micros().saturating_sub(now.as_micros()).clamp(0, guc::tick_interval()));
        let pause = Duration::from_micros(pause.unsigned_abs());
        while failed_looks > 0 && slept.elapsed() < pause && !tick::interrupted(database) {
            super::sleep_for(pause.saturating_sub(slept.elapsed()));
        }
    }
}

/// Sleeps until `next`; until a commit wakes us, or one may have come of which nobody told, which is true then.
fn sleep(board: &wake::Dispatcher, next: Option<Instant>, seen: Option<Seen>) -> bool {
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

/// When to look again after one more look that failed: after growing pauses, as long as a tick at most.
fn after_failure(failed_looks: &mut i32, now: Instant) -> Option<Instant> {
    *failed_looks = failed_looks.saturating_add(1);
    now.checked_add_micros(backoff::after_fire_failures(*failed_looks))
}

/// What pg_stat_activity shows meanwhile.
fn asleep_until(wake: Instant) -> CString {
    // SAFETY: a static buffer of Postgres, copied at once.
    let time = unsafe { CStr::from_ptr(pg_sys::timestamptz_to_str(wake.as_micros())) };
    CString::new([b"asleep until ", time.to_bytes()].concat()).unwrap_or_default()
}

/// What a dispatcher finds in its database.
pub struct Here {
    name: CString,
    /// A dispatcher may be there.
    pub is_served: bool,
    /// Its role has the rights that it needs.
    may_dispatch: bool,
    /// Its role was not dropped.
    role_exists: bool,
    /// What was there to be seen.
    seen: Option<Seen>,
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

/// This database, where the extension exists in it (its schema can only go with it).
pub fn extension_here() -> Option<Here> {
    let seen = Seen::now();
    // The first from the cache.
    role::schema().and_then(|_| catalog::extension())?;
    catalog::this_database().map(|database| Here {
        is_served: launcher::serves(&database),
        name: database.name,
        may_dispatch: role::may_dispatch(),
        role_exists: role::exists(role::caller()),
        seen,
    })
}

/// The same, saying where it failed for a lock.
fn look(locked: &AtomicBool) -> Option<Here> {
    PgTryBuilder::new(extension_here)
        .catch_when(PgSqlErrorCode::ERRCODE_LOCK_NOT_AVAILABLE, |error| {
            locked.store(true, Relaxed);
            error.rethrow()
        })
        .execute()
}
