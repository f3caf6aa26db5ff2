//! `import_crontab`: a crontab's lines as schedules of a pull job.

use std::collections::{HashMap, HashSet};

use hmac::{Hmac, Mac};
use pgrx::prelude::*;
use scheduler_core::crontab::{self, CrontabEntry, Style};
use scheduler_core::job::Kind;
use sha2::Sha256;

use crate::guc;
use crate::pg::convert::required;
use crate::pg::error::{or_raise, raise, Failure, Outcome};
use crate::pg::jsonb::Jsonb;
use crate::pg::memory;
use crate::pg::utf8_text::Text;
use crate::pg::zone::ServerZone;
use crate::pg::{role, session, subtransaction, Session};
use crate::store::database_clock;
use crate::store::job;
use crate::store::schedule::{bulk, Definition};
use crate::store::shard;

use crate::api::job as jobs;
use crate::api::result::TableIterator;
use crate::api::schedule::{check_payload, defaults};

/// The job and the queue of everything that was imported.
const CRONTAB: &str = "crontab";
/// A longer text is refused: no crontab is, and a line's environment is stored with each line.
const MAX_BYTES: usize = 1_048_576;
/// Each line is stored with the assignments above it, all lines together in so many bytes at most.
const MAX_STORED: usize = 64 * 1_048_576;

/// So many bytes of HMAC-SHA-256 (RFC 2104) tell the lines of all crontabs apart.
const HASH_BYTES: usize = 8;

type ImportedLine = (i32, Option<String>, Option<String>, Option<String>, Option<String>);

#[pg_extern(schema = "sched", volatile, parallel_unsafe)]
#[allow(clippy::type_complexity)]
fn import_crontab(
    crontab: Option<Text>,
    system: default!(Option<bool>, "false"),
    time_zone: default!(Option<Text>, "NULL"),
) -> TableIterator<
    'static,
    (
        name!(line, i32),
        name!(schedule_name, Option<String>),
        name!(clock, Option<String>),
        name!(command, Option<String>),
        name!(note, Option<String>),
    ),
> {
    let rows = or_raise((|| {
        let text = required("crontab", crontab)?;
        let style = if required("system", system)? { Style::System } else { Style::User };
        let zone = time_zone.map_or_else(guc::time_zone, String::from);
        ServerZone::find(&zone)?;
        if text.len() > MAX_BYTES {
            return Err(Failure::new(
                PgSqlErrorCode::ERRCODE_PROGRAM_LIMIT_EXCEEDED,
                format!("crontab is too large: {} bytes", text.len()),
                format!("Import at most {MAX_BYTES} bytes at a time."),
            ));
        }
        import(&text, style, &zone)
    })());
    TableIterator::new(rows)
}

fn import(text: &str, style: Style, zone: &str) -> Outcome<Vec<ImportedLine>> {
    let (mut rows, mut schedules, mut entries) = (Vec::new(), Vec::new(), Vec::new());
    let mut stored = 0;
    for line in crontab::read(text, style) {
        if let Ok(entry) = &line.entry {
            let environment: usize = entry.environment.iter().map(|(name, value)| name.len() + value.len()).sum();
            stored += environment + entry.command.len();
            if stored > MAX_STORED {
                return Err(Failure::new(
                    PgSqlErrorCode::ERRCODE_PROGRAM_LIMIT_EXCEEDED,
                    format!("the environments of all lines have more than {MAX_STORED} bytes"),
                    "Import fewer lines at a time: each line is stored with its environment.",
                ));
            }
            // Each is written as JSON and read again before the next.
            memory::require(memory::ALWAYS.max(8 * environment));
        }
        let number = i32::try_from(line.number).unwrap_or(i32::MAX);
        let read = line.entry.map_err(|error| format!("{error}. {}", error.hint)).and_then(|entry| {
            let schedule =
                imported(&entry, zone).map_err(|failure| format!("{}. {}", failure.message, failure.hint))?;
            Ok((schedule, entry))
        });
        match read {
            Ok((schedule, entry)) => {
                rows.push((number, None, Some(schedule.clock.clone()), Some(entry.command.clone()), None));
                schedules.push(schedule);
                entries.push((rows.len() - 1, entry));
            }
            Err(reason) => rows.push((number, None, None, None, Some(reason))),
        }
    }
    if schedules.is_empty() {
        return Ok(rows);
    }
    let doubt = crontab::doubt(text, style);
    let caller = role::caller();
    session(|session| {
        let job_name = job_of(session, caller)?;
        let names = names(session, &entries, &job_name)?;
        for ((schedule, name), (row, _)) in schedules.iter_mut().zip(names).zip(&entries) {
            rows[*row].1 = Some(name.clone());
            schedule.job_name.clone_from(&job_name);
            schedule.scope_id.clone_from(&name);
            schedule.schedule_name = name;
        }
        shard::lock();
        let mut elsewhere: HashMap<String, String> = HashMap::new();
        schedules.retain(|schedule| {
            let reason = shard::reason(session, schedule.scope());
            elsewhere.extend(reason.iter().map(|reason| (schedule.schedule_name.clone(), reason.clone())));
            reason.is_none()
        });
        memory::require(memory::ALWAYS.max(3 * stored));
        bulk::insert(session, schedules, database_clock::now());
        let foreign: HashSet<String> = {
            let names = rows.iter().filter_map(|row| row.1.clone()).collect();
            bulk::names_of_other_jobs(session, names, &job_name).into_iter().collect()
        };
        for row in &mut rows {
            if let Some(reason) = row.1.as_ref().and_then(|name| elsewhere.get(name)) {
                row.4 = Some(format!("{reason}: nothing was created for this line"));
            }
            if row.1.as_ref().is_some_and(|name| foreign.contains(name)) {
                row.4 = Some(
                    "a schedule of another job has this name already: nothing was created for this line".to_owned(),
                );
            }
        }
        Outcome::Ok(())
    })?;
    for row in rows.iter_mut().filter(|row| row.4.is_none()) {
        row.4.clone_from(&doubt);
    }
    Ok(rows)
}

/// The names of these entries: those that a release before 0.3.1 has given stay.
fn names(session: &Session, entries: &[(usize, CrontabEntry)], job_name: &str) -> Outcome<Vec<String>> {
    let of_job = |name: &str| name.replacen(CRONTAB, job_name, 1);
    let old: Vec<String> = entries.iter().map(|(_, entry)| of_job(&entry.old_name)).collect();
    let kept: HashSet<String> = bulk::names_of_job(session, old.clone(), job_name).into_iter().collect();
    let secret = bulk::crontab_secret(session, shard::is_shared(session)?)?;
    let keyed = Hmac::<Sha256>::new_from_slice(&secret).map_err(|error| Failure::internal(error.to_string()))?;
    // With the name of the owner's own job: no role learns from its imports whether another has the same line.
    let keyed = keyed.chain_update(job_name).chain_update([0]);
    let hash = |said: &[u8]| -> String {
        let bytes = keyed.clone().chain_update(said).finalize().into_bytes();
        bytes.iter().take(HASH_BYTES).map(|byte| format!("{byte:02x}")).collect()
    };
    let name =
        |(entry, old): (&CrontabEntry, String)| if kept.contains(&old) { old } else { of_job(&entry.name(hash)) };
    Ok(entries.iter().map(|(_, entry)| entry).zip(old).map(name).collect())
}

/// The job of the caller's crontabs: `crontab`, or `crontab/ROLE` where another role has that name already.
fn job_of(session: &Session, caller: pg_sys::Oid) -> Outcome<String> {
    for job_name in [CRONTAB.to_owned(), format!("{CRONTAB}/{}", role::name(caller))] {
        // Exactly the caller's: a superuser's crontab must not end up with whoever was first to define this job.
        if job::read(session, &job_name).is_some_and(|known| known.owner != caller) {
            continue;
        }
        let keep = || job::read_and_keep(session, &job_name).is_some_and(|known| known.owner == caller);
        // Somebody else may just be defining it, for whom the caller may act: then nothing of this stays, nor a lock.
        let kept = subtransaction::run(|| {
            if !keep() {
                job::write(session, &crontab_job(&job_name), caller, false, None);
                if !keep() {
                    raise(Failure::not_owner("job", &job_name));
                }
            }
        });
        match kept {
            Ok(()) => return Ok(job_name),
            Err(failure) if failure.code == PgSqlErrorCode::ERRCODE_INSUFFICIENT_PRIVILEGE => {}
            Err(failure) => return Err(failure),
        }
    }
    Err(Failure::not_owner("job", CRONTAB))
}

/// As with cron, a command that failed is not tried again before its next plan time.
fn crontab_job(job_name: &str) -> job::Definition {
    job::Definition {
        queue: CRONTAB.to_owned(),
        max_attempts: 1,
        retry_backoff: Vec::new(),
        ..jobs::defaults(job_name.to_owned(), Kind::Pull)
    }
}

/// One entry as a schedule, which gets its name later.
fn imported(entry: &CrontabEntry, zone: &str) -> Outcome<Definition> {
    let time_zone = entry.time_zone.clone().unwrap_or_else(|| zone.to_owned());
    ServerZone::find(&time_zone)?;
    let mut payload = serde_json::json!({
        "command": entry.command,
        "user": entry.user,
        "environment": *entry.environment,
    });
    if let (Some(stdin), Some(object)) = (&entry.stdin, payload.as_object_mut()) {
        object.insert("stdin".to_owned(), stdin.as_str().into());
    }
    let payload = Jsonb::parse(&payload.to_string());
    check_payload(&payload)?;
    Ok(Definition {
        payload,
        ..defaults(String::new(), entry.clock.clone(), CRONTAB.to_owned(), Some(time_zone), None)
    })
}
