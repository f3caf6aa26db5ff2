//! The job of a declared schedule that has a command: schedule and job are a pair of one name, as schedule_sql makes them.

use pgrx::pg_sys;

use crate::pg::convert;
use crate::pg::error::Outcome;
use crate::pg::Session;
use crate::store::job::{self, Definition};
use crate::store::schedule::Locked;

use crate::api::job::{self as jobs, Runs};
use crate::api::sql_job;

/// A job as it is declared.
pub struct Pair(Definition);

impl Pair {
    pub fn new(definition: Definition) -> Pair {
        Pair(definition)
    }

    /// The same by this name.
    pub fn named(&self, name: &str) -> Pair {
        Pair(Definition { job_name: name.to_owned(), ..self.0.clone() })
    }
}

/// Defines the job; each argument that it changes. `42710` where a job of the name never belonged to such a pair.
pub fn write(session: &Session, pair: &Pair, schedule: Option<&Locked>, caller: pg_sys::Oid) -> Outcome<Vec<String>> {
    let (job, name) = (&pair.0, pair.0.job_name.as_str());
    let before = sql_job::lock_or_make_job(session, job, caller)?;
    let Some((found, is_pair)) = before else { return Ok(Vec::new()) };
    let is_its_own = schedule.is_some_and(|schedule| schedule.definition.job_name == name && found.run_by_server);
    if !is_pair && !is_its_own {
        return Err(sql_job::no_pair("job", name));
    }
    let old = job::lock_definition(session, name).map(|(_, old)| texts(&old));
    let changes = differences(old.unwrap_or_default(), texts(job));
    if !changes.is_empty() {
        jobs::write(session, job, caller, Runs::Define)?;
    }
    Ok(changes)
}

/// Each argument of a pair's job as text.
fn texts(job: &Definition) -> Vec<(&'static str, String)> {
    let waits = job.retry_backoff.iter().map(|wait| convert::shown_interval(*wait));
    vec![
        ("kind", scheduler_core::Keyword::as_str(job.kind).to_owned()),
        ("command", job.command.clone().unwrap_or_else(none)),
        ("run_timeout", job.run_timeout.map_or_else(none, convert::shown_interval)),
        ("max_attempts", job.max_attempts.to_string()),
        ("retry_backoff", format!("{{{}}}", waits.collect::<Vec<_>>().join(", "))),
        ("own_transactions", job.own_transactions.to_string()),
        ("settings", job.settings.text()),
        ("priority", job.priority.to_string()),
    ]
}

/// Each argument that differs, with its old and its new value.
pub fn differences(old: Vec<(&'static str, String)>, new: Vec<(&'static str, String)>) -> Vec<String> {
    old.into_iter()
        .zip(new)
        .filter(|((_, old), (_, new))| old != new)
        .map(|((argument, old), (_, new))| format!("{argument}: {} → {}", convert::shown(&old), convert::shown(&new)))
        .collect()
}

/// How a text shows that there is no value.
pub fn none() -> String {
    "(none)".to_owned()
}
