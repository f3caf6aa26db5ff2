//! pg_cron: `cron.job`. What it runs, and how: README and sources of its versions 1.4 to 1.6.

use std::ffi::CString;

use pgrx::pg_sys::Oid;
use scheduler_core::foreign::pg_cron;
use scheduler_core::job::Kind;
use scheduler_core::schedule::Overlap;
use scheduler_core::{Instant, Keyword};

use crate::guc;
use crate::pg::error::Outcome;
use crate::pg::parse::{self, Strings};
use crate::pg::syscache;
use crate::store::handover::foreign::{ForeignSchema, TextRow};
use crate::store::handover::switch::{self, Switch};
use crate::store::job;

use crate::api::job as jobs;

use super::source::{find_tables, read_runs, ForeignRow, Place, Runs, Source, Wanted};

/// See the module.
pub struct PgCron;

impl Source for PgCron {
    fn find(&self, named: Option<String>, caller: Oid) -> Outcome<ForeignSchema> {
        let schema = find_tables(self, named, &["cron"], &[c"job"], caller)?;
        // Its rows say as whom they run. pg_cron's own policy lets nobody write another's; a copy may lack it.
        if !schema.has_policies("job") {
            schema.written_by_none_but(&["job"], caller)?;
        }
        Ok(schema)
    }

    fn rows(&self, schema: &ForeignSchema) -> Vec<ForeignRow> {
        let server = Server::now();
        schema
            .rows(include_str!("../../../sql/query/handover/pg_cron_jobs.sql"))
            .iter()
            .map(|row| server.row(row))
            .collect()
    }

    fn runs(&self, schema: &ForeignSchema, from: Instant, to: Instant, caller: Oid) -> Outcome<Runs> {
        schema.trust(c"job_run_details", caller)?;
        Ok(read_runs(schema, include_str!("../../../sql/query/handover/pg_cron_runs.sql"), from, to))
    }

    fn switch(&self) -> &'static Switch {
        &switch::PG_CRON
    }
}

/// What is said for all rows at once.
struct Server {
    database: String,
    /// Where it connects to for a run, if it does.
    host: Option<String>,
    /// The port of this server.
    port: Option<String>,
    /// Its own workers run jobs, wherever their rows say that they connect to.
    has_workers: bool,
    time_zone: String,
    both_days: bool,
    /// `cron.launch_active_jobs` is not off.
    launches: bool,
}

/// The zone of its clocks, where no setting says another.
const ZONE: &str = "GMT";

impl Server {
    fn now() -> Server {
        let is_on = |name| {
            let value = guc::of_another(name);
            value.is_some_and(|value| matches!(value.to_ascii_lowercase().as_str(), "on" | "true" | "yes" | "1"))
        };
        Server {
            database: syscache::database_name(),
            host: guc::of_another("cron.host"),
            time_zone: guc::of_another("cron.timezone")
                .filter(|zone| !zone.is_empty())
                .unwrap_or_else(|| ZONE.to_owned()),
            port: guc::of_another("port"),
            has_workers: is_on("cron.use_background_workers"),
            both_days: is_on("cron.match_dom_and_dow"),
            launches: guc::of_another("cron.launch_active_jobs").is_none() || is_on("cron.launch_active_jobs"),
        }
    }

    fn row(&self, row: &TextRow) -> ForeignRow {
        let id = row.text("id");
        let [schedule, command, database, host, role, active] =
            ["schedule", "command", "database", "host", "role", "active"].map(|column| row.text(column));
        let is_host = ["localhost", "127.0.0.1", "::1", ""].contains(&host)
            || host.starts_with('/')
            || self.host.as_deref() == Some(host);
        let other_port = row.get("port").filter(|port| self.port.as_deref().is_some_and(|own| own != *port));
        let place = if let Some((column, look)) = row.unreadable() {
            let look: String = look.chars().take(80).collect();
            Place::Here(Box::new(Err(format!("its {column} is not valid UTF-8: \"{look}\""))))
        } else if !self.has_workers && !is_host {
            Place::Elsewhere(format!("it is run on the server at \"{host}\""))
        } else if let Some(port) = other_port.filter(|_| !self.has_workers) {
            Place::Elsewhere(format!("it is run on the server at \"{host}\" port {port}"))
        } else {
            let wanted = Box::new(self.wanted(schedule, command, role, active == "true"));
            if database == self.database {
                Place::Here(wanted)
            } else {
                Place::Database(database.to_owned(), wanted)
            }
        };
        ForeignRow {
            id: id.to_owned(),
            name: row.get("name").filter(|name| !name.is_empty()).map_or_else(|| format!("job {id}"), str::to_owned),
            said: [schedule, command, database, host, role, &self.time_zone, if self.both_days { "both" } else { "" }]
                .join("\u{1f}"),
            place,
        }
    }

    fn wanted(&self, schedule: &str, command: &str, role: &str, enabled: bool) -> Result<Wanted, String> {
        let clock =
            pg_cron::read(schedule, self.both_days).map_err(|reason| format!("schedule \"{schedule}\": {reason}"))?;
        let job = job::Definition {
            command: Some(command.to_owned()),
            // It sends the whole command as one simple query: several statements are one transaction.
            own_transactions: statements(command)? == 1,
            ..jobs::defaults(String::new(), Kind::Sql)
        };
        Ok(Wanted {
            clock,
            time_zone: self.time_zone.clone(),
            job,
            shared_job: None,
            starts_at: None,
            ends_at: None,
            payload: None,
            role: Some(role.to_owned()),
            // One run at a time, and one that waits.
            overlap: Overlap::BufferOne.as_str(),
            enabled,
            note: (enabled && !self.launches).then(|| {
                "cron.launch_active_jobs is off, so pg_cron does not run it; here it runs once it is taken over"
                    .to_owned()
            }),
        })
    }
}

/// How many statements a command has; the reason where no run could run it.
pub fn statements(command: &str) -> Result<usize, String> {
    parse::check(command, Strings::STANDARD)
        .map_err(|failure| format!("its command cannot be run here: {}", failure.message))?;
    let text = CString::new(command).unwrap_or_default();
    parse::count(&text, Strings::STANDARD).map_err(|failure| failure.message)
}
