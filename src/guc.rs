//! The settings `sched.*`, read at SIGHUP.

use std::ffi::{CStr, CString};

use pgrx::{GucContext, GucFlags, GucRegistry, GucSetting, PostgresGucEnum};

use crate::pg::database_setting::{self, DatabaseSetting};

static ENABLED: GucSetting<bool> = GucSetting::<bool>::new(true);
static DISPATCH: GucSetting<bool> = GucSetting::<bool>::new(true);
static DATABASES: GucSetting<Option<CString>> = GucSetting::<Option<CString>>::new(Some(c"*"));
static TICK_INTERVAL: GucSetting<i32> = GucSetting::<i32>::new(60_000);
static BATCH_SIZE: GucSetting<i32> = GucSetting::<i32>::new(1000);
static TIME_ZONE: GucSetting<Option<CString>> = GucSetting::<Option<CString>>::new(Some(c"UTC"));
static STALE_TIMEOUT: GucSetting<i32> = GucSetting::<i32>::new(300_000);
static MISFIRE_GRACE: GucSetting<i32> = GucSetting::<i32>::new(60_000);
static HISTORY_RETENTION: GucSetting<i32> = GucSetting::<i32>::new(30 * 86_400);
static NOTIFY: GucSetting<bool> = GucSetting::<bool>::new(true);
static LOG_TICKS: GucSetting<bool> = GucSetting::<bool>::new(false);
static FAST_PATH: GucSetting<bool> = GucSetting::<bool>::new(true);
static MAX_SQL_RUNNERS: GucSetting<i32> = GucSetting::<i32>::new(4);
static MAX_SQL_RUNNERS_PER_ROLE: GucSetting<i32> = GucSetting::<i32>::new(0);
static RUNNER_IDLE: GucSetting<i32> = GucSetting::<i32>::new(5000);
static CANCEL_GRACE: GucSetting<i32> = GucSetting::<i32>::new(10_000);
static WORKER_ROLE: GucSetting<Option<CString>> = GucSetting::<Option<CString>>::new(Some(c""));

static UNDEFINED_JOBS: GucSetting<UndefinedJobs> = GucSetting::<UndefinedJobs>::new(UndefinedJobs::Warn);

/// What `enqueue` does for a job that was never defined.
#[derive(Clone, Copy, PartialEq, Eq, PostgresGucEnum)]
pub enum UndefinedJobs {
    /// It enqueues, and says nothing.
    #[name = c"allow"]
    Allow,
    /// It enqueues, with a warning.
    #[name = c"warn"]
    Warn,
    /// It raises an error.
    #[name = c"refuse"]
    Refuse,
}

/// The longest time in milliseconds that a setting may name: 24 days, as the type of Postgres' settings has it.
const LONGEST: i32 = i32::MAX;

/// Registers the settings and reserves their prefix; one that only a restart changes cannot be registered after the start, and
/// says nothing where no worker was started.
pub fn register(starting: bool) {
    let milliseconds = |name, what, more, setting, least| {
        GucRegistry::define_int_guc(name, what, more, setting, least, LONGEST, GucContext::Sighup, GucFlags::UNIT_MS);
    };
    let text = |name, what, more, setting| {
        GucRegistry::define_string_guc(name, what, more, setting, GucContext::Sighup, GucFlags::default());
    };
    let switch = |name, what, more, setting| {
        GucRegistry::define_bool_guc(name, what, more, setting, GucContext::Sighup, GucFlags::default());
    };
    switch(
        c"sched.enabled",
        c"Whether the scheduler's workers do anything but wait.",
        c"Clients can call sched.dispatch_due whatever this says.",
        &ENABLED,
    );
    GucRegistry::define_bool_guc(
        c"sched.dispatch",
        c"Whether the schedules of a database fire by themselves; set it by ALTER DATABASE.",
        c"Only the value of the database counts, not that of a session, a role or the configuration. off: schedules fire only by sched.dispatch_due.",
        &DISPATCH,
        GucContext::Suset,
        GucFlags::default(),
    );
    text(
        c"sched.databases",
        c"The databases that get a dispatcher, separated by commas; * means all that have the extension.",
        c"",
        &DATABASES,
    );
    milliseconds(
        c"sched.tick_interval",
        c"The longest sleep of a dispatcher.",
        c"Fires are on time without it; it is the fallback for what cannot wake a dispatcher.",
        &TICK_INTERVAL,
        10,
    );
    GucRegistry::define_int_guc(
        c"sched.batch_size",
        c"How many due schedules one transaction dispatches at most, and how many executions it makes of them.",
        c"",
        &BATCH_SIZE,
        1,
        100_000,
        GucContext::Sighup,
        GucFlags::default(),
    );
    text(c"sched.time_zone", c"The time zone of schedules that name none.", c"", &TIME_ZONE);
    milliseconds(
        c"sched.stale_timeout",
        c"The lease of an execution whose job and claim name none: without a heartbeat for this long it is stale.",
        c"",
        &STALE_TIMEOUT,
        1,
    );
    milliseconds(
        c"sched.misfire_grace",
        c"How late a plan of a skip_missed schedule may still run.",
        c"",
        &MISFIRE_GRACE,
        0,
    );
    GucRegistry::define_int_guc(
        c"sched.history_retention",
        c"How long executions stay in the ledger after they have ended.",
        c"The newest run of a schedule stays, and the newest that was claimed with try_claim in a scope.",
        &HISTORY_RETENTION,
        1,
        LONGEST,
        GucContext::Sighup,
        GucFlags::UNIT_S,
    );
    if starting {
        GucRegistry::define_string_guc(
            c"sched.worker_role",
            c"The role that dispatchers connect and work as; empty means as a superuser.",
            c"It needs what sched.grant_worker gives, in each database that has the extension.",
            &WORKER_ROLE,
            GucContext::Postmaster,
            GucFlags::default(),
        );
    }
    GucRegistry::define_enum_guc(
        c"sched.undefined_jobs",
        c"What enqueue does for a job that was never defined: allow, warn or refuse.",
        c"Executions of such a job wait in the queue default for a worker that claims them.",
        &UNDEFINED_JOBS,
        GucContext::Userset,
        GucFlags::default(),
    );
    switch(c"sched.notify", c"Whether queues are notified (LISTEN \"sched:<queue>\") of new work.", c"", &NOTIFY);
    switch(
        c"sched.log_ticks",
        c"Whether each tick that did something writes a line to the server's log: what it did and how long it took.",
        c"",
        &LOG_TICKS,
    );
    switch(
        c"sched.fast_path",
        c"Whether leases, claims and fires go to the rows of the scheduler's tables without a plan.",
        c"off: all of it goes through SQL statements, which is slower: a way out, should a new minor release of the server call for one.",
        &FAST_PATH,
    );
    GucRegistry::define_int_guc(
        c"sched.max_sql_runners",
        c"How many commands of jobs of kind sql the server runs at the same time, in all databases.",
        c"Each takes one of max_worker_processes. 0: none runs, and what is due waits.",
        &MAX_SQL_RUNNERS,
        0,
        256,
        GucContext::Sighup,
        GucFlags::default(),
    );
    GucRegistry::define_int_guc(
        c"sched.max_sql_runners_per_role",
        c"How many commands of SQL jobs of one role the server runs at the same time, in all databases.",
        c"0: one less than sched.max_sql_runners, and at least 1. What finds no place waits.",
        &MAX_SQL_RUNNERS_PER_ROLE,
        0,
        256,
        GucContext::Sighup,
        GucFlags::default(),
    );
    milliseconds(
        c"sched.runner_idle",
        c"How long a runner of the server waits for the next run of the same owner and database.",
        c"0: each run has a process of its own.",
        &RUNNER_IDLE,
        0,
    );
    milliseconds(
        c"sched.cancel_grace",
        c"How long after a cancel, or after run_timeout, a command may take to end before its process is terminated.",
        c"",
        &CANCEL_GRACE,
        0,
    );
    // SAFETY: the prefix is a C string; Postgres copies it.
    unsafe { pgrx::pg_sys::MarkGUCPrefixReserved(c"sched".as_ptr()) }
}

/// `sched.enabled`.
pub fn enabled() -> bool {
    ENABLED.get()
}

/// The name of `sched.dispatch`.
const DISPATCH_NAME: &CStr = c"sched.dispatch";

/// `sched.dispatch` of this database, whatever a session, a role or the configuration says; `None` where the catalog is locked. Inside a
/// transaction.
pub fn dispatch_of_database() -> Option<bool> {
    match database_setting::read(DISPATCH_NAME) {
        DatabaseSetting::Locked => None,
        DatabaseSetting::Known(None) => Some(true),
        DatabaseSetting::Known(Some(value)) => {
            let mut on = true;
            // SAFETY: a C string, and a place for the result, which stays as it is where the text is no boolean.
            unsafe { pgrx::pg_sys::parse_bool(value.as_ptr(), &raw mut on) };
            Some(on)
        }
    }
}

/// `sched.tick_interval` in microseconds.
pub fn tick_interval() -> i64 {
    i64::from(TICK_INTERVAL.get()) * 1000
}

/// `sched.batch_size`.
pub fn batch_size() -> i64 {
    i64::from(BATCH_SIZE.get())
}

/// `sched.stale_timeout` in microseconds.
pub fn stale_timeout() -> i64 {
    i64::from(STALE_TIMEOUT.get()) * 1000
}

/// `sched.misfire_grace` in microseconds.
pub fn misfire_grace() -> i64 {
    i64::from(MISFIRE_GRACE.get()) * 1000
}

/// `sched.history_retention` in microseconds.
pub fn history_retention() -> i64 {
    i64::from(HISTORY_RETENTION.get()) * 1_000_000
}

/// `sched.notify`.
pub fn notify() -> bool {
    NOTIFY.get()
}

/// `sched.log_ticks`.
pub fn log_ticks() -> bool {
    LOG_TICKS.get()
}

/// `sched.fast_path`.
pub fn fast_path() -> bool {
    FAST_PATH.get()
}

/// `sched.max_sql_runners`.
#[allow(dead_code, reason = "for the processes that run commands")]
pub fn max_sql_runners() -> usize {
    usize::try_from(MAX_SQL_RUNNERS.get()).unwrap_or(0)
}

/// `sched.max_sql_runners_per_role`, as a number of runners.
#[allow(dead_code, reason = "for the processes that run commands")]
pub fn max_sql_runners_per_role() -> usize {
    match usize::try_from(MAX_SQL_RUNNERS_PER_ROLE.get()) {
        Ok(0) | Err(_) => max_sql_runners().saturating_sub(1).max(1),
        Ok(most) => most,
    }
}

/// `sched.runner_idle` in microseconds.
#[allow(dead_code, reason = "for the processes that run commands")]
pub fn runner_idle() -> i64 {
    i64::from(RUNNER_IDLE.get()) * 1000
}

/// `sched.cancel_grace` in microseconds.
#[allow(dead_code, reason = "for the processes that run commands")]
pub fn cancel_grace() -> i64 {
    i64::from(CANCEL_GRACE.get()) * 1000
}

/// `sched.worker_role`; `None` where it names no role.
pub fn worker_role() -> Option<CString> {
    WORKER_ROLE.get().filter(|name| !name.is_empty())
}

/// `sched.time_zone`.
pub fn time_zone() -> String {
    text_of(&TIME_ZONE, "UTC")
}

/// Whether `sched.databases` names this database.
pub fn serves_database(name: &CStr) -> bool {
    let list = text_of(&DATABASES, "*");
    list.split(',').map(str::trim).any(|entry| entry == "*" || entry.as_bytes() == name.to_bytes())
}

fn text_of(setting: &GucSetting<Option<CString>>, default: &str) -> String {
    setting.get().map_or_else(|| default.to_owned(), |text| text.to_string_lossy().into_owned())
}

/// A setting of the server or of another extension, as text; `None` where nobody has said it.
pub fn of_another(name: &str) -> Option<String> {
    let name = CString::new(name).ok()?;
    // SAFETY: a C string; the value is copied at once.
    unsafe {
        let value = pgrx::pg_sys::GetConfigOption(name.as_ptr(), true, false);
        (!value.is_null()).then(|| CStr::from_ptr(value).to_string_lossy().into_owned())
    }
}

/// What to do with executions of a job that was never defined.
pub fn undefined_jobs() -> UndefinedJobs {
    UNDEFINED_JOBS.get()
}
