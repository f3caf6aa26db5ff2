//! pgAgent: jobs with steps and schedules. Each schedule is a row here, and those of one job share a job. What it runs, and how: its
//! SQL and its sources, versions 3.4 to 4.2.

use std::collections::{HashMap, HashSet};

use pgrx::pg_sys::Oid;
use scheduler_core::foreign::pgagent::{self, Fields, Window};
use scheduler_core::job::Kind;
use scheduler_core::schedule::Overlap;
use scheduler_core::{Instant, Keyword};

use crate::pg::error::Outcome;
use crate::pg::syscache;
use crate::store::database_clock;
use crate::store::handover::foreign::{argument, ForeignSchema, TextRow};
use crate::store::handover::switch::{self, Switch};
use crate::store::job;

use crate::api::job as jobs;

use super::database_zone::default_zone;
use super::pg_cron::statements;
use super::source::{find_tables, instant, read_runs, ForeignRow, Place, Runs, Source, Wanted};

/// See the module.
pub struct PgAgent;

impl Source for PgAgent {
    fn find(&self, named: Option<String>, caller: Oid) -> Outcome<ForeignSchema> {
        let tables = [c"pga_job", c"pga_jobstep", c"pga_schedule", c"pga_exception"];
        let schema = find_tables(self, named, &["pgagent"], &tables, caller)?;
        // Its rows do not say as whom they run.
        schema.written_by_none_but(&["pga_job", "pga_jobstep"], caller)?;
        Ok(schema)
    }

    fn rows(&self, schema: &ForeignSchema) -> Vec<ForeignRow> {
        let server =
            Server { database: syscache::database_name(), time_zone: default_zone(schema), now: database_clock::now() };
        let mut steps: HashMap<String, Vec<TextRow>> = HashMap::new();
        for step in schema.rows(include_str!("../../../sql/query/handover/pgagent_steps.sql")) {
            steps.entry(step.text("job").to_owned()).or_default().push(step);
        }
        let statement = include_str!("../../../sql/query/handover/pgagent_rows.sql");
        let rows = schema.rows_of(statement, &[argument(server.time_zone.as_str())]);
        let names = Names::of(&rows);
        let none = Vec::new();
        rows.iter().map(|row| server.row(row, steps.get(row.text("job")).unwrap_or(&none), &names)).collect()
    }

    fn runs(&self, schema: &ForeignSchema, from: Instant, to: Instant, caller: Oid) -> Outcome<Runs> {
        schema.trust(c"pga_joblog", caller)?;
        Ok(read_runs(schema, include_str!("../../../sql/query/handover/pgagent_runs.sql"), from, to))
    }

    fn switch(&self) -> &'static Switch {
        &switch::PGAGENT
    }
}

/// What its jobs and schedules are called: two jobs there may have one name.
struct Names {
    ambiguous: HashSet<String>,
    with_several: HashSet<String>,
}

impl Names {
    fn of(rows: &[TextRow]) -> Names {
        let mut ids: HashMap<&str, HashSet<&str>> = HashMap::new();
        let mut schedules: HashMap<&str, usize> = HashMap::new();
        for row in rows {
            ids.entry(row.text("name")).or_default().insert(row.text("job"));
            *schedules.entry(row.text("job")).or_default() += 1;
        }
        let owned = |text: &str| text.to_owned();
        Names {
            ambiguous: ids.iter().filter(|(_, ids)| ids.len() > 1).map(|(name, _)| owned(name)).collect(),
            with_several: schedules.iter().filter(|(_, count)| **count > 1).map(|(job, _)| owned(job)).collect(),
        }
    }

    fn job(&self, row: &TextRow) -> String {
        let (name, id) = (row.text("name"), row.text("job"));
        match name {
            "" => format!("job {id}"),
            _ if self.ambiguous.contains(name) => format!("{name} ({id})"),
            _ => name.to_owned(),
        }
    }

    fn schedule(&self, row: &TextRow) -> String {
        let job = self.job(row);
        if self.with_several.contains(row.text("job")) {
            format!("{job} / {}", row.text("schedule"))
        } else {
            job
        }
    }
}

/// What is said for all rows at once.
struct Server {
    database: String,
    time_zone: String,
    now: Instant,
}

impl Server {
    fn row(&self, row: &TextRow, steps: &[TextRow], names: &Names) -> ForeignRow {
        let columns =
            ["minutes", "hours", "weekdays", "monthdays", "months", "starts", "ends", "exceptions", "host", "name"];
        let mut said: Vec<&str> = columns.iter().map(|column| row.text(column)).collect();
        said.push(&self.time_zone);
        for step in steps {
            said.extend(["name", "kind", "code", "is_remote", "database", "on_error"].map(|column| step.text(column)));
        }
        let unreadable = steps.iter().chain([row]).find_map(TextRow::unreadable);
        let remote = |step: &TextRow| step.text("is_remote") == "true";
        let away = |step: &TextRow| step.text("kind") == "s" && !remote(step) && step.text("database") != self.database;
        let place = if let Some((column, look)) = unreadable {
            let look: String = look.chars().take(80).collect();
            Place::Here(Box::new(Err(format!("its {column} is not valid UTF-8: \"{look}\""))))
        } else if !steps.is_empty() && steps.iter().all(away) {
            let database = steps.first().map_or("", |step| step.text("database"));
            Place::Elsewhere(format!("its steps are run in database \"{database}\""))
        } else {
            Place::Here(Box::new(self.wanted(row, steps, names)))
        };
        ForeignRow { id: row.text("id").to_owned(), name: names.schedule(row), said: said.join("\u{1f}"), place }
    }

    fn wanted(&self, row: &TextRow, steps: &[TextRow], names: &Names) -> Result<Wanted, String> {
        let window = self.window(row)?;
        let bits = |column, length, first| {
            pgagent::bits(row.text(column), length, first).map_err(|reason| format!("{column}: {reason}"))
        };
        let fields = Fields {
            minutes: bits("minutes", 60, 0)?,
            hours: bits("hours", 24, 0)?,
            days_of_week: bits("weekdays", 7, 0)?,
            days: bits("monthdays", 32, 1)?,
            months: bits("months", 12, 1)?,
        };
        let exceptions = pgagent::exceptions(row.text("exceptions"))?;
        let clock = pgagent::read(fields, &exceptions, window, self.now)?;
        let (command, own_transactions, swallows) = self.script(steps)?;
        let (starts_at, ends_at) = pgagent::bounds(window);
        let job =
            job::Definition { command: Some(command), own_transactions, ..jobs::defaults(String::new(), Kind::Sql) };
        let host = row.text("host");
        let host = (!host.is_empty()).then(|| format!("the agent on host \"{host}\" runs it there, the server here"));
        let swallows = swallows.then(|| "a run that fails counts as a success there, and as a failure here".to_owned());
        Ok(Wanted {
            clock,
            time_zone: self.time_zone.clone(),
            job,
            shared_job: Some(names.job(row)),
            payload: None,
            starts_at: Some(starts_at),
            ends_at,
            role: None,
            // The next run is sought when one has ended.
            overlap: Overlap::Skip.as_str(),
            enabled: row.text("enabled") == "true",
            note: host.into_iter().chain(swallows).reduce(|a, b| format!("{a}; {b}")),
        })
    }

    fn window(&self, row: &TextRow) -> Result<Window, String> {
        let time = |column: &str| match row.get(column) {
            None => Ok(None),
            Some(text) => instant(Some(text)).map(Some).ok_or_else(|| format!("it {column} at {text}")),
        };
        let start = match row.get("starts") {
            Some("-infinity") => Instant::MIN,
            _ => time("starts")?.ok_or("it has no start")?,
        };
        let end = if row.get("ends") == Some("infinity") { None } else { time("ends")? };
        let start_minute = row.text("start_minute").parse().unwrap_or(0);
        Ok(Window { start, end, start_minute })
    }

    /// Its steps as one command: whether each statement is a transaction of its own, and whether pgAgent overlooks that it fails.
    fn script(&self, steps: &[TextRow]) -> Result<(String, bool, bool), String> {
        let mut commands = Vec::with_capacity(steps.len());
        for (place, step) in steps.iter().enumerate() {
            let name = step.text("name");
            if step.text("kind") != "s" {
                return Err(format!("step \"{name}\" is a program of the agent's host, and none is run here"));
            }
            if step.text("is_remote") == "true" {
                return Err(format!("step \"{name}\" connects by a connection string of its own"));
            }
            if step.text("database") != self.database {
                return Err(format!(
                    "step \"{name}\" is run in database \"{}\", others are not",
                    step.text("database")
                ));
            }
            if place + 1 < steps.len() && step.text("on_error") != "f" {
                return Err(format!(
                    "the steps after \"{name}\" are run also where it fails: make them jobs of their own"
                ));
            }
            let code = step.text("code");
            let count = statements(code).map_err(|reason| format!("step \"{name}\": {reason}"))?;
            commands.push((name, code.trim_end(), count));
        }
        let swallows = steps.last().is_some_and(|step| step.text("on_error") != "f");
        match commands.as_slice() {
            [] => Err("it has no step that is enabled".to_owned()),
            // It sends each step as one simple query: several statements are one transaction.
            [(_, code, count)] => Ok(((*code).to_owned(), *count == 1, swallows)),
            several => {
                if let Some((name, ..)) = several.iter().find(|(.., count)| *count > 1) {
                    return Err(format!(
                        "step \"{name}\" is one transaction of several statements beside other steps, which no command here can be: make it a job of its own"
                    ));
                }
                // A line end, since a step may end in a comment.
                let code = several.iter().filter(|(.., count)| *count == 1);
                let text: Vec<String> = code.map(|(_, code, _)| format!("{}\n;", code.trim_end_matches(';'))).collect();
                Ok((text.join("\n"), true, swallows))
            }
        }
    }
}
