//! `define_job`, `drop_job`, and what a job may be.

use pgrx::datum::Interval;
use pgrx::prelude::*;
use pgrx::PgSqlErrorCode;
use scheduler_core::job::{Kind, DEFAULT_QUEUE};
use scheduler_core::Keyword;

use crate::dispatch;
use crate::guc;
use crate::pg::array::Many;
use crate::pg::convert::{self, duration, optional_duration, required, Zero};
use crate::pg::error::{self, or_raise, Failure, Outcome};
use crate::pg::jsonb::Jsonb;
use crate::pg::parse::{self, Strings};
use crate::pg::utf8_text::Text;
use crate::pg::{role, run_settings, session, Session};
use crate::shmem::wakeup;
use crate::store::database_clock;
use crate::store::job;
use crate::store::{grants, identity};

/// What NOTIFY carries, in bytes: `NOTIFY_PAYLOAD_MAX_LENGTH` of the server, without the end of the string.
const MAX_NOTIFY_BYTES: usize = 7999;

#[pg_extern(schema = "sched", name = "define_job", volatile, parallel_unsafe)]
#[allow(clippy::too_many_arguments)]
fn define_job_of_any_kind(
    job_name: Option<Text>,
    kind: default!(Option<Text>, "'pull'"),
    command: default!(Option<Text>, "NULL"),
    queue: default!(Option<Text>, "'default'"),
    max_attempts: default!(Option<i32>, "NULL"),
    retry_backoff: default!(Option<Many<Interval>>, "NULL"),
    run_timeout: default!(Option<Interval>, "NULL"),
    stale_timeout: default!(Option<Interval>, "NULL"),
    allow_stale_reentry: default!(Option<bool>, "true"),
    priority: default!(Option<i32>, "0"),
    own_transactions: default!(Option<bool>, "false"),
    settings: default!(Option<Jsonb>, "'{}'"),
) {
    or_raise((|| {
        let job_name = convert::name("job_name", job_name)?;
        let default = defaults(job_name, known_kind(&required("kind", kind)?)?);
        let definition = job::Definition {
            command: command.map(String::from),
            queue: convert::queue(queue)?,
            max_attempts: max_attempts.unwrap_or(default.max_attempts),
            retry_backoff: retry_backoff.map_or(Ok(default.retry_backoff), backoff)?,
            run_timeout,
            stale_timeout,
            allow_stale_reentry: required("allow_stale_reentry", allow_stale_reentry)?,
            priority: required("priority", priority)?,
            own_transactions: required("own_transactions", own_transactions)?,
            settings: required("settings", settings)?,
            job_name: default.job_name,
            kind: default.kind,
        };
        check(&definition)?;
        let caller = role::caller();
        session(|session| write(session, &definition, caller, Runs::Define))
    })());
}

/// A job of this kind with the default of every argument that has one.
pub fn defaults(job_name: String, kind: Kind) -> job::Definition {
    job::Definition {
        job_name,
        kind,
        command: None,
        queue: DEFAULT_QUEUE.to_owned(),
        max_attempts: kind.default_max_attempts(),
        retry_backoff: kind.default_retry_backoff().iter().copied().map(convert::interval).collect(),
        run_timeout: None,
        stale_timeout: None,
        allow_stale_reentry: true,
        priority: 0,
        own_transactions: false,
        settings: Jsonb::empty(),
    }
}

/// Refuses a payload that a job of kind `notify` cannot deliver: `22023`.
pub fn check_payload(notifies: bool, job_name: &str, payload: &Jsonb) -> Outcome<()> {
    if !notifies {
        return Ok(());
    }
    let size = payload.text_size();
    if size <= MAX_NOTIFY_BYTES {
        return Ok(());
    }
    Err(Failure::invalid(
        format!("payload for job \"{}\" of kind notify is too long: {size} bytes", convert::shown(job_name)),
        format!("NOTIFY carries at most {MAX_NOTIFY_BYTES} bytes: keep the data in a table, and pass its key."),
    ))
}

/// `22004` for a NULL in it, `22023` and `22008` for a wait that may not be.
pub fn backoff(waits: impl IntoIterator<Item = Option<Interval>>) -> Outcome<Vec<Interval>> {
    waits
        .into_iter()
        .map(|wait| {
            let wait = required("an element of retry_backoff", wait)?;
            duration("retry_backoff", wait, Zero::Allowed).map(|_| wait)
        })
        .collect()
}

/// Everything about a job that can be wrong by itself.
pub fn check(job: &job::Definition) -> Outcome<()> {
    check_kind(job)?;
    at_least_one("max_attempts", job.max_attempts)?;
    let run = optional_duration("run_timeout", job.run_timeout, Zero::Refused)?;
    let stale = optional_duration("stale_timeout", job.stale_timeout, Zero::Refused)?;
    let stale = stale.unwrap_or_else(guc::stale_timeout);
    // A runner of the server needs no lease to outlive its run.
    if let Some(run) = run.filter(|run| *run >= stale && !job.kind.is_run_by_server()) {
        let [run, stale] = [run, stale].map(|micros| micros as f64 / 1e6);
        return Err(Failure::invalid(
            format!("run_timeout ({run} seconds) must be shorter than stale_timeout ({stale} seconds)"),
            "Give the lease more time than the run: raise stale_timeout or lower run_timeout.",
        ));
    }
    Ok(())
}

/// The longest channel that NOTIFY takes, in bytes.
const MAX_CHANNEL_BYTES: usize = 63;

fn check_kind(job: &job::Definition) -> Outcome<()> {
    let kind = job.kind;
    for (argument, is_default) in
        [("own_transactions", !job.own_transactions), ("settings", job.settings == Jsonb::empty())]
    {
        if !is_default && !kind.is_run_by_server() {
            return Err(Failure::invalid(
                format!("{argument} is not for a job of kind \"{}\"", kind.as_str()),
                "Leave it out, or reset it in sched.alter_job: only a job of kind 'sql' has it.",
            ));
        }
    }
    match kind {
        Kind::Pull | Kind::Log => {}
        Kind::Notify => match job.command.as_deref() {
            Some(channel) if !channel.is_empty() && channel.len() <= MAX_CHANNEL_BYTES => {}
            Some(channel) => {
                return Err(Failure::invalid(
                    format!("command \"{channel}\" is not a channel that NOTIFY takes"),
                    format!("Pass a channel name of 1 to {MAX_CHANNEL_BYTES} bytes as command."),
                ))
            }
            None => {
                return Err(Failure::invalid(
                    "a job of kind \"notify\" needs a command",
                    "Pass the channel to notify, for example command => 'reports'.",
                ))
            }
        },
        Kind::Sql => {
            let Some(command) = &job.command else {
                return Err(Failure::invalid(
                    "a job of kind \"sql\" needs a command",
                    "Pass the SQL to run, for example command => 'REFRESH MATERIALIZED VIEW sales'.",
                ));
            };
            let strings =
                run_settings::read(&job.settings).map_or(Strings::STANDARD, |said| run_settings::strings(&said));
            parse::check(command, strings)?;
            run_settings::check(&job.settings)?;
        }
    }
    Ok(())
}

/// `22023` for a word that is no kind.
pub fn known_kind(word: &str) -> Outcome<Kind> {
    Kind::parse(word).ok_or_else(|| {
        Failure::invalid(
            format!("unknown kind \"{}\"", convert::shown(word)),
            "Use 'pull' (an application claims the executions), 'notify' (pg_notify(command, payload)), 'log' (a line in the server's log) or 'sql' (the server runs the command).",
        )
    })
}

/// `22023` below 1.
pub fn at_least_one(argument: &str, value: i32) -> Outcome<i32> {
    if value < 1 {
        return Err(Failure::invalid(
            format!("{argument} must be at least 1, not {value}"),
            format!("Pass a {argument} of 1 or more."),
        ));
    }
    Ok(value)
}

/// What a call says of the runs, which are the owner's.
#[derive(Clone, Copy, PartialEq, Eq)]
pub enum Runs {
    /// The caller says all of it: command and settings.
    Define,
    /// The caller says a part of it: the owner could do as the caller what the caller writes there.
    Change,
    /// The caller says nothing of it.
    Keep,
    /// What runs is the owner's own, from another scheduler.
    Theirs,
}

/// Writes a job, if the caller may; `42501`.
pub fn write(session: &Session, definition: &job::Definition, caller: pg_sys::Oid, runs: Runs) -> Outcome<()> {
    identity::refuse_distributed(|| session)?;
    let name = definition.job_name.as_str();
    let written = loop {
        let before = job::lock_own(session, name, caller);
        let mut takes = false;
        match &before {
            Some(before) if !role::exists(before.owner) => takes = takes_orphan(definition, before.owner, runs)?,
            Some(before) if matches!(runs, Runs::Define | Runs::Change) => {
                check_runs_of(session, name, before.owner, caller)?;
            }
            Some(_) => {}
            // The right is asked for before a row is locked.
            None => check_own(session, name, caller)?,
        }
        if definition.kind == Kind::Notify && before.as_ref().is_some_and(|before| !before.is_of(Kind::Notify)) {
            check_payloads(session, name)?;
        }
        if let Some(written) = job::write(session, definition, caller, takes, before) {
            break written;
        }
        // Somebody has made it between the two.
        pgrx::check_for_interrupts!();
    };
    announce(session, written);
    Ok(())
}

/// Refuses the kind `notify` for a job with a schedule whose payload it could not deliver: `22023`.
fn check_payloads(session: &Session, name: &str) -> Outcome<()> {
    let Some((schedule, size)) = job::long_payload(session, name, MAX_NOTIFY_BYTES) else { return Ok(()) };
    Err(Failure::invalid(
        format!("schedule \"{schedule}\" of job \"{}\" has a payload of {size} bytes", convert::shown(name)),
        format!("NOTIFY carries at most {MAX_NOTIFY_BYTES} bytes: shorten it with sched.alter_schedule first."),
    ))
}

/// Whether a superuser becomes the owner of a job whose owner was dropped: a command that the role has left would run as the superuser, so only
/// with a call that says all that runs; `42501`.
fn takes_orphan(definition: &job::Definition, owner: pg_sys::Oid, runs: Runs) -> Outcome<bool> {
    match runs {
        Runs::Define => Ok(true),
        Runs::Theirs => Ok(false),
        // What has no command has none that another kind could run later.
        Runs::Change | Runs::Keep if definition.command.is_none() => Ok(true),
        Runs::Change | Runs::Keep => Err(orphan(&definition.job_name, owner)),
    }
}

/// The error of a call that would run what a dropped role has left.
pub fn orphan(job_name: &str, owner: pg_sys::Oid) -> Failure {
    let (name, owner) = (convert::shown(job_name), owner.to_u32());
    Failure::new(
        PgSqlErrorCode::ERRCODE_INSUFFICIENT_PRIVILEGE,
        format!("job \"{name}\" belongs to a role that was dropped (OID {owner}), whose command would run as the caller"),
        "Read the command in sched.jobs, and define the job again: sched.define_job and sched.schedule_sql replace command and settings.",
    )
}

/// Makes a job of the caller's; false where there is one of this name.
pub fn insert(session: &Session, definition: &job::Definition, caller: pg_sys::Oid) -> Outcome<bool> {
    identity::refuse_distributed(|| session)?;
    let made = job::write(session, definition, caller, false, None);
    let is_made = made.is_some();
    made.into_iter().for_each(|written| announce(session, written));
    Ok(is_made)
}

/// Gives a job that is locked, its schedules and what waits of it to another role; `42501` but for a superuser, and for a role that may become
/// both owners: what the command does, it does as the new one.
pub fn hand_over(
    session: &Session,
    name: &str,
    before: pg_sys::Oid,
    new: pg_sys::Oid,
    caller: pg_sys::Oid,
) -> Outcome<()> {
    let may = |owner| role::is_superuser(caller) || role::may_become(caller, owner);
    if !may(before) {
        return Err(Failure::not_owner("job", name));
    }
    if !may(new) {
        let owner = role::quoted(new);
        return Err(Failure::new(
            PgSqlErrorCode::ERRCODE_INSUFFICIENT_PRIVILEGE,
            format!(
                "job \"{}\" cannot be given to role {owner}, of which the caller is no member",
                convert::shown(name)
            ),
            format!("Have a superuser do it, or a member of both roles: GRANT {owner} TO it."),
        ));
    }
    if before == new {
        return Ok(());
    }
    let handed = job::hand_over(session, name, before, new);
    if handed.left > 0 {
        let left = handed.left;
        let warning = format!(
            "{left} executions of job \"{}\" keep their owner: they run, or another transaction has locked them",
            convert::shown(name)
        );
        let hint = "Retries of those are claimed as their owner. When they have ended, to give the job back and hand it over again moves what is left.";
        error::warn(Some(Failure::new(PgSqlErrorCode::ERRCODE_WARNING, warning, hint)));
    }
    announce(session, handed.written);
    Ok(())
}

/// Refuses to give a job to a superuser with a command that a role which is none has written: `42501`.
pub fn check_command_of(name: &str, before: pg_sys::Oid, new: pg_sys::Oid) -> Outcome<()> {
    if !role::is_superuser(new) {
        return Ok(());
    }
    let (name, superuser) = (convert::shown(name), role::quoted(new));
    let writer =
        if role::exists(before) { format!("role {}", role::quoted(before)) } else { "a dropped role".to_owned() };
    Err(Failure::new(
        PgSqlErrorCode::ERRCODE_INSUFFICIENT_PRIVILEGE,
        format!("the command of job \"{name}\" was written by {writer} and would run as superuser {superuser}"),
        "Pass the command as well: sched.alter_job(..., owner => ..., command => ...) replaces command and settings.",
    ))
}

/// Has all hear of what writing a job led to.
fn announce(session: &Session, written: job::Written) {
    dispatch::notify(session, written.queues);
    if written.rearmed > 0 {
        wakeup::at_commit(database_clock::now());
    }
}

/// The job of this name, if it was defined; `42501` where it is another role's.
pub fn job_for_caller(job: Option<job::Job>, job_name: &str, caller: pg_sys::Oid) -> Outcome<Option<job::Job>> {
    if job.as_ref().is_some_and(|job| !role::may_act_for(caller, job.owner)) {
        return Err(Failure::not_owner("job", job_name));
    }
    Ok(job)
}

/// `42501` where there is a job of this name that is another role's.
pub fn check_own(session: &Session, name: &str, caller: pg_sys::Oid) -> Outcome<()> {
    job_for_caller(job::read(session, name), name, caller).map(drop)
}

/// `42501` where the caller may not say what runs as the owner of a job. A superuser may act for every role, but what one writes into the job
/// of another role by mistake, passwords included, is that role's to read: so only as a member by grants of superusers. And since version 16
/// there are members who may not become the role.
pub fn check_runs_of(session: &Session, name: &str, owner: pg_sys::Oid, caller: pg_sys::Oid) -> Outcome<()> {
    let may = if role::is_superuser(caller) {
        owner == caller || !role::exists(owner) || grants::is_member_by_grant(session, caller, owner)
    } else {
        role::may_become(caller, owner)
    };
    if may {
        return Ok(());
    }
    let (name, owner) = (convert::shown(name), role::quoted(owner));
    Err(Failure::new(
        PgSqlErrorCode::ERRCODE_INSUFFICIENT_PRIVILEGE,
        format!("job \"{name}\" belongs to role {owner}, which would run and could read what is written here"),
        format!("Run SET ROLE {owner} first if that is meant, or take the job over with sched.alter_job(owner => ..., command => ...); otherwise choose another name."),
    ))
}

#[pg_extern(schema = "sched", volatile, parallel_unsafe)]
fn drop_job(job_name: Option<Text>) -> bool {
    or_raise((|| {
        let name = convert::name("job_name", job_name)?;
        let caller = role::caller();
        session(|session| {
            check_own(session, &name, caller)?;
            let Some(found) = job::lock(session, &name) else { return Ok(false) };
            if !role::may_act_for(caller, found.owner) {
                return Err(Failure::not_owner("job", &name));
            }
            delete(session, &name)?;
            Ok(true)
        })
    })())
}

/// Deletes a job that is locked; `2BP01` while a schedule uses it.
pub fn delete(session: &Session, name: &str) -> Outcome<()> {
    if let Some(schedule) = job::user(session, name) {
        return Err(Failure::new(
            PgSqlErrorCode::ERRCODE_DEPENDENT_OBJECTS_STILL_EXIST,
            format!("job \"{name}\" is used by schedule \"{schedule}\""),
            "Drop its schedules first, or give them another job.",
        ));
    }
    job::delete(session, name);
    Ok(())
}
