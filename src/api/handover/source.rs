//! What there is to know of another scheduler.

use std::collections::HashMap;

use pgrx::pg_sys::Oid;
use pgrx::PgSqlErrorCode;
use scheduler_core::foreign::comparison::Run;
use scheduler_core::foreign::ForeignClock;
use scheduler_core::Instant;
use sha2::{Digest, Sha256};

use crate::pg::error::{Failure, Outcome};
use crate::pg::jsonb::Jsonb;
pub use crate::store::handover::foreign::instant;
use crate::store::handover::foreign::{self, argument, ForeignSchema};
use crate::store::handover::switch::Switch;
use crate::store::job;

/// Another scheduler, by its tables in this database.
pub trait Source {
    /// What it is called in arguments.
    fn name(&self) -> &'static str {
        self.switch().source
    }
    /// The schema that has its tables; `42P01`, and `42501` where they are not to be trusted.
    fn find(&self, named: Option<String>, caller: Oid) -> Outcome<ForeignSchema>;
    /// Its rows, in the order of their ids.
    fn rows(&self, schema: &ForeignSchema) -> Vec<ForeignRow>;
    /// What it has run that began in [from, to), in order, by the first part of the ids of its rows.
    fn runs(&self, schema: &ForeignSchema, from: Instant, to: Instant, caller: Oid) -> Outcome<Runs>;
    /// How its rows are taken over.
    fn switch(&self) -> &'static Switch;
}

/// Runs by the id of what was run.
pub type Runs = HashMap<String, Vec<Run>>;

/// One of its rows.
pub struct ForeignRow {
    /// What it is known by there.
    pub id: String,
    /// Its name there, or what stands for one.
    pub name: String,
    /// All that matters of it, as text, but for whether it is on.
    pub said: String,
    /// Whether it is run in this database.
    pub place: Place,
}

/// Whether a row concerns this database.
pub enum Place {
    /// It does: what it is here, or why it can be nothing.
    Here(Box<Result<Wanted, String>>),
    /// It is run elsewhere: where.
    Elsewhere(String),
    /// It is run in this other database: what it would be there.
    Database(String, Box<Result<Wanted, String>>),
}

/// What becomes of a row here.
pub struct Wanted {
    /// Its clock.
    pub clock: ForeignClock,
    /// The zone of its clock.
    pub time_zone: String,
    /// The job, but for its name.
    pub job: job::Definition,
    /// What the job is called, which others of its rows may have as well; `None`: as the row. Plan times that its rows have in common
    /// are run once.
    pub shared_job: Option<String>,
    /// The first instant that may be a plan time.
    pub starts_at: Option<Instant>,
    /// The first that may no longer be one.
    pub ends_at: Option<Instant>,
    /// What executions carry; `None`: nothing, and no bounds are theirs to say.
    pub payload: Option<Jsonb>,
    /// As whom it runs; `None`: as who imports it.
    pub role: Option<String>,
    /// What comes while a run goes on.
    pub overlap: &'static str,
    /// It is on there.
    pub enabled: bool,
    /// Something to tell.
    pub note: Option<String>,
}

/// A report and a run so near to each other are the same, in microseconds.
const SAME_RUN: i64 = 5_000_000;

/// Adds runs that were reported; not those that the source has written down itself.
pub fn add_reported(theirs: &mut Vec<Run>, fires: Vec<Instant>) {
    let is_near = |run: &Run, fire: Instant| (run.began.as_micros() - fire.as_micros()).abs() <= SAME_RUN;
    let known = theirs.clone();
    let new = fires.into_iter().filter(|fire| !known.iter().any(|run| is_near(run, *fire)));
    theirs.extend(new.map(|began| Run { began, ended: Some(began) }));
    theirs.sort_by_key(|run| run.began);
}

/// What an import remembers of what a row says.
pub fn fingerprint(said: &str) -> String {
    Sha256::digest(said.as_bytes()).iter().take(16).map(|byte| format!("{byte:02x}")).collect()
}

/// The schema that has this table, all of it to be trusted.
pub fn find_tables(
    source: &dyn Source,
    named: Option<String>,
    candidates: &[&str],
    tables: &[&std::ffi::CStr],
    caller: Oid,
) -> Outcome<ForeignSchema> {
    let candidates: Vec<String> = candidates.iter().map(|name| (*name).to_owned()).collect();
    let first = tables.first().copied().unwrap_or_default();
    let schema = foreign::find(named, &candidates, first, source.name())?;
    let mut speaks_for_all = true;
    for table in tables {
        speaks_for_all &= schema.trust(table, caller)?;
    }
    Ok(ForeignSchema { speaks_for_all, ..schema })
}

/// `55000`.
pub fn state(message: impl Into<String>, hint: impl Into<String>) -> Failure {
    Failure::new(PgSqlErrorCode::ERRCODE_OBJECT_NOT_IN_PREREQUISITE_STATE, message, hint)
}

/// What a statement of `sql/query/handover` says that was run, from and to in seconds since 1970; it returns `id`, `began` and
/// `ended` in order.
pub fn read_runs(schema: &ForeignSchema, statement: &str, from: Instant, to: Instant) -> Runs {
    let arguments = [argument(from.unix_seconds()), argument(to.unix_seconds())];
    let mut runs = Runs::new();
    for row in schema.rows_of(statement, &arguments) {
        if let Some(began) = instant(row.get("began")) {
            let run = Run { began, ended: instant(row.get("ended")) };
            runs.entry(row.text("id").to_owned()).or_default().push(run);
        }
    }
    runs
}
