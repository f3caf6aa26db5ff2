//! Settings of pg_cron that files and dashboards ask for, with what is true here: `SHOW cron.database_name` and its kin are errors otherwise.
//! Where pg_cron is preloaded they are its own. `sql/cron` reads `cron.timezone`, `cron.enable_superuser_jobs` and `cron.launch_active_jobs`.

use std::ffi::{c_char, c_void, CString};

use pgrx::prelude::*;
use pgrx::{GucContext, GucFlags, GucRegistry, GucSetting};

use crate::guc;

static DATABASE_NAME: GucSetting<Option<CString>> = GucSetting::<Option<CString>>::new(Some(c"postgres"));
static TIMEZONE: GucSetting<Option<CString>> = GucSetting::<Option<CString>>::new(Some(c"GMT"));
static SUPERUSER_JOBS: GucSetting<bool> = GucSetting::<bool>::new(true);
static LAUNCH: GucSetting<bool> = GucSetting::<bool>::new(true);
static LOG_RUN: GucSetting<bool> = GucSetting::<bool>::new(true);
static MOST_RUNNING: GucSetting<i32> = GucSetting::<i32>::new(4);

/// Registers them while the server starts, where pg_cron will not: a second registration would keep the server from starting.
pub fn register() {
    if preloads_pg_cron(&guc::of_another("shared_preload_libraries").unwrap_or_default()) {
        return;
    }
    GucRegistry::define_string_guc(
        c"cron.timezone",
        c"The time zone in which cron.schedule of scheduler_cron reads a schedule.",
        c"Each job keeps the one that it was scheduled in.",
        &TIMEZONE,
        GucContext::Userset,
        GucFlags::default(),
    );
    GucRegistry::define_bool_guc(
        c"cron.enable_superuser_jobs",
        c"Whether cron.schedule of scheduler_cron takes jobs of superusers.",
        c"",
        &SUPERUSER_JOBS,
        GucContext::Userset,
        GucFlags::default(),
    );
    // SAFETY: the hooks below are of the types that their settings ask for.
    unsafe {
        GucRegistry::define_string_guc_with_hooks(
            c"cron.database_name",
            c"The database of the session: each has jobs of its own.",
            c"What is set is not read.",
            &DATABASE_NAME,
            GucContext::Sighup,
            GucFlags::default(),
            None,
            None,
            Some(show_database),
        );
        GucRegistry::define_bool_guc_with_hooks(
            c"cron.log_run",
            c"Whether runs are written down, which they are.",
            c"What is set is not read.",
            &LOG_RUN,
            GucContext::Sighup,
            GucFlags::default(),
            None,
            None,
            Some(show_on),
        );
        GucRegistry::define_int_guc_with_hooks(
            c"cron.max_running_jobs",
            c"sched.max_sql_runners.",
            c"What is set is not read.",
            &MOST_RUNNING,
            0,
            i32::MAX,
            GucContext::Sighup,
            GucFlags::default(),
            None,
            None,
            Some(show_most_running),
        );
        GucRegistry::define_bool_guc_with_hooks(
            c"cron.launch_active_jobs",
            c"off is not obeyed: it is a warning in the log and in each call of cron.schedule.",
            c"The schedules of a database do not fire after ALTER DATABASE ... SET sched.dispatch = off.",
            &LAUNCH,
            GucContext::Sighup,
            GucFlags::default(),
            None,
            Some(launch_is_set),
            None,
        );
    }
}

/// Whether one of these libraries is pg_cron, with or without a folder and an ending.
fn preloads_pg_cron(libraries: &str) -> bool {
    libraries.split(',').any(|library| {
        let name = library.trim().trim_matches('"');
        let name = name.rsplit('/').next().unwrap_or(name);
        name.strip_suffix(".so").unwrap_or(name) == "pg_cron"
    })
}

unsafe extern "C-unwind" fn show_database() -> *const c_char {
    // Outside of a transaction the catalogs cannot be asked.
    if pg_sys::IsTransactionState() && pg_sys::MyDatabaseId != pg_sys::InvalidOid {
        let name = pg_sys::get_database_name(pg_sys::MyDatabaseId);
        if !name.is_null() {
            return name;
        }
    }
    c"".as_ptr()
}

unsafe extern "C-unwind" fn show_on() -> *const c_char {
    c"on".as_ptr()
}

unsafe extern "C-unwind" fn show_most_running() -> *const c_char {
    pg_sys::pstrdup(CString::new(guc::max_sql_runners().to_string()).unwrap_or_default().as_ptr())
}

/// Said by the postmaster alone, at the start and at each reload that changes it.
#[pg_guard]
unsafe extern "C-unwind" fn launch_is_set(value: bool, _extra: *mut c_void) {
    if !value && !pg_sys::IsUnderPostmaster {
        pgrx::warning!(
            "scheduler: cron.launch_active_jobs = off is not obeyed: the jobs of cron.job run; ALTER DATABASE ... SET sched.dispatch = off keeps the schedules of a database from firing"
        );
    }
}
