//! A row of another scheduler that can be a schedule here.

use std::collections::HashMap;

use pgrx::pg_sys::Oid;
use scheduler_core::Keyword;

use crate::pg::error::{Failure, Outcome};
use crate::pg::role;
use crate::store::handover::{Imported, ImportedSchedule};
use crate::store::job;
use crate::store::schedule::Definition;

use super::before::first_part;

/// A row that can be a schedule here.
pub struct Ready {
    pub id: String,
    pub source_name: String,
    pub name: String,
    /// Other rows have its job as well.
    pub is_job_shared: bool,
    pub fingerprint: String,
    pub schedule: Definition,
    /// What executions carry, and between when there are any, is theirs to say.
    pub has_payload: bool,
    pub job: job::Definition,
    pub owner: Oid,
    pub note: Option<String>,
}

impl Ready {
    /// Has it run this job, in the scope of the same name.
    pub fn name_job(&mut self, job_name: &str) {
        job_name.clone_into(&mut self.job.job_name);
        job_name.clone_into(&mut self.schedule.job_name);
        job_name.clone_into(&mut self.schedule.scope_id);
    }
}

/// The job that was imported with another row of the same one.
pub fn known_job<'a>(ready: &Ready, ours: &'a HashMap<String, (String, Oid)>) -> Option<&'a str> {
    let (job_name, owner) = ours.get(first_part(&ready.id))?;
    (ready.is_job_shared && *owner == ready.owner).then_some(job_name)
}

/// What a row can be.
pub enum Judged {
    Ready(Box<Ready>),
    Elsewhere(String),
    Unsupported(String),
}

/// Whether schedule and job are what the import made; the reason where an edit there can be none here.
pub fn is_still_theirs(ready: &Ready, before: &Imported, schedule: &ImportedSchedule) -> Outcome<()> {
    let name = &schedule.name;
    let message = if schedule.job_name != before.job_name {
        format!("schedule \"{name}\" has job \"{}\" now, which was not imported with it", schedule.job_name)
    } else if schedule.owner != Some(ready.owner) {
        let role = role::name(ready.owner);
        format!("it runs as role \"{role}\" there now: drop schedule \"{name}\" and its job, and import it again")
    } else if schedule.kind.as_deref() != Some(ready.job.kind.as_str()) {
        let kind = schedule.kind.as_deref().unwrap_or_default();
        format!("job \"{}\" is of kind \"{kind}\" now, not \"{}\"", before.job_name, ready.job.kind.as_str())
    } else {
        return Ok(());
    };
    Err(Failure::invalid(message, ""))
}

/// Where two rows have one name, each gets its id behind it.
pub fn name_apart(new: &mut [(usize, Box<Ready>)]) {
    let mut count: HashMap<String, usize> = HashMap::new();
    for (_, ready) in new.iter() {
        *count.entry(ready.name.clone()).or_default() += 1;
    }
    for (_, ready) in new.iter_mut().filter(|(_, ready)| count.get(&ready.name).is_some_and(|count| *count > 1)) {
        let name = format!("{} ({})", ready.name, ready.id);
        ready.schedule.schedule_name.clone_from(&name);
        if !ready.is_job_shared {
            ready.name_job(&name);
        }
        ready.name = name;
    }
}
