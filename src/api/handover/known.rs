//! The schedulers that can be imported from, by their names.

use crate::pg::convert;
use crate::pg::error::{Failure, Outcome};

use super::celery_beat::CeleryBeat;
use super::pg_cron::PgCron;
use super::pg_timetable::PgTimetable;
use super::pgagent::PgAgent;
use super::source::Source;
use super::timescaledb::TimescaleDb;

/// All of them.
const SOURCES: [&dyn Source; 5] = [&PgCron, &PgAgent, &CeleryBeat, &TimescaleDb, &PgTimetable];

/// The scheduler of this name; `22023`.
pub fn known(name: &str) -> Outcome<&'static dyn Source> {
    SOURCES.into_iter().find(|source| source.name() == name).ok_or_else(|| {
        let names: Vec<String> = SOURCES.iter().map(|source| format!("'{}'", source.name())).collect();
        if name == "crontab" {
            return Failure::invalid("a crontab is no source of import_from", "Pass its text to sched.import_crontab.");
        }
        let message = format!("unknown source \"{}\"", convert::shown(name));
        Failure::invalid(message, format!("Use one of: {}.", names.join(", ")))
    })
}
