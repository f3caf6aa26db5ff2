//! pg_timetable: `timetable.chain` and its tasks. What it runs, and how: DDL and sources of its version 6.

use std::collections::HashMap;
use std::ffi::CString;

use pgrx::pg_sys::Oid;
use scheduler_core::foreign::{pg_timetable, ForeignClock};
use scheduler_core::job::Kind;
use scheduler_core::schedule::Overlap;
use scheduler_core::{Instant, Keyword};

use crate::pg::error::Outcome;
use crate::pg::parse::{self, Strings};
use crate::store::handover::foreign::{ForeignSchema, TextRow};
use crate::store::handover::switch::{self, Switch};
use crate::store::job;

use crate::api::job as jobs;

use super::database_zone::default_zone;
use super::source::{find_tables, read_runs, ForeignRow, Place, Runs, Source, Wanted};

/// See the module.
pub struct PgTimetable;

/// So many runs of a chain may go on at once where it says nothing.
const INSTANCES: i64 = 16;

impl Source for PgTimetable {
    fn find(&self, named: Option<String>, caller: Oid) -> Outcome<ForeignSchema> {
        let schema = find_tables(self, named, &["timetable"], &[c"chain", c"task", c"parameter"], caller)?;
        schema.written_by_none_but(&["chain", "task", "parameter"], caller)?;
        Ok(schema)
    }

    fn rows(&self, schema: &ForeignSchema) -> Vec<ForeignRow> {
        let zone = default_zone(schema);
        let mut tasks: HashMap<String, Vec<TextRow>> = HashMap::new();
        for task in schema.rows(include_str!("../../../sql/query/handover/pg_timetable_tasks.sql")) {
            tasks.entry(task.text("chain_id").to_owned()).or_default().push(task);
        }
        let chains = schema.rows(include_str!("../../../sql/query/handover/pg_timetable_chains.sql"));
        chains.iter().map(|chain| row(chain, &tasks.remove(chain.text("id")).unwrap_or_default(), &zone)).collect()
    }

    fn runs(&self, schema: &ForeignSchema, from: Instant, to: Instant, caller: Oid) -> Outcome<Runs> {
        schema.trust(c"execution_log", caller)?;
        Ok(read_runs(schema, include_str!("../../../sql/query/handover/pg_timetable_runs.sql"), from, to))
    }

    fn switch(&self) -> &'static Switch {
        &switch::PG_TIMETABLE
    }
}

const OF_CHAIN: [&str; 9] = [
    "run_at",
    "max_instances",
    "timeout",
    "self_destruct",
    "exclusive_execution",
    "client_name",
    "on_error",
    "time_zone",
    "owner",
];
const OF_TASK: [&str; 8] =
    ["kind", "command", "run_as", "connection", "ignore_error", "autonomous", "timeout", "has_parameters"];

fn row(chain: &TextRow, tasks: &[TextRow], zone: &str) -> ForeignRow {
    let of_tasks = tasks.iter().flat_map(|task| OF_TASK.map(|column| task.text(column)));
    let said: Vec<&str> = OF_CHAIN.map(|column| chain.text(column)).into_iter().chain(of_tasks).chain([zone]).collect();
    let unreadable = chain.unreadable().or_else(|| tasks.iter().find_map(TextRow::unreadable));
    let wanted = match unreadable {
        Some((column, look)) => {
            let look: String = look.chars().take(80).collect();
            Err(format!("its {column} is not valid UTF-8: \"{look}\""))
        }
        None => wanted(chain, tasks, zone),
    };
    ForeignRow {
        id: chain.text("id").to_owned(),
        name: chain.text("name").to_owned(),
        said: said.join("\u{1f}"),
        place: Place::Here(Box::new(wanted)),
    }
}

fn is(row: &TextRow, column: &str) -> bool {
    row.text(column) == "true"
}

fn wanted(chain: &TextRow, tasks: &[TextRow], zone: &str) -> Result<Wanted, String> {
    for (column, reason) in [
        ("self_destruct", "it is run once only, and then deleted"),
        ("exclusive_execution", "all other chains wait while it runs"),
    ] {
        if is(chain, column) {
            return Err(reason.to_owned());
        }
    }
    if !chain.text("on_error").trim().is_empty() {
        return Err("it has an on_error command".to_owned());
    }
    if chain.text("timeout").parse::<i64>().is_ok_and(|timeout| timeout > 0) {
        return Err("it has a timeout: set it to 0 there, and run_timeout of the job here".to_owned());
    }
    let overlap = match chain.get("max_instances").map(|text| text.parse::<i64>().unwrap_or(0)) {
        Some(1) => Overlap::Skip,
        None | Some(INSTANCES..) => Overlap::Allow,
        Some(count) => {
            return Err(format!("at most {count} of its runs go on at once: one, or any number is known here"))
        }
    };
    let clock = clock(chain)?;
    let (command, own_transactions) = script(tasks)?;
    let client = chain.get("client_name").filter(|client| !client.is_empty());
    Ok(Wanted {
        clock,
        time_zone: chain.get("time_zone").unwrap_or(zone).to_owned(),
        job: job::Definition { command: Some(command), own_transactions, ..jobs::defaults(String::new(), Kind::Sql) },
        starts_at: None,
        ends_at: None,
        shared_job: None,
        payload: None,
        role: Some(role(tasks)?.unwrap_or_else(|| chain.text("owner").to_owned())),
        overlap: overlap.as_str(),
        enabled: is(chain, "live"),
        note: client.map(|client| format!("there only client \"{client}\" runs it")),
    })
}

fn clock(chain: &TextRow) -> Result<ForeignClock, String> {
    let said = chain.get("run_at");
    let seconds = || chain.text("seconds").parse().map_err(|_| "it has no interval".to_owned());
    let read = match said {
        // Each minute.
        None => pg_timetable::cron("* * * * *"),
        Some("@reboot") => Err("nothing here is run when the server starts".to_owned()),
        Some(text) if text.starts_with("@every") => pg_timetable::interval(seconds()?, false),
        Some(text) if text.starts_with("@after") => pg_timetable::interval(seconds()?, true),
        Some(text) => pg_timetable::cron(text),
    };
    read.map_err(|reason| format!("run_at \"{}\": {reason}", said.unwrap_or_default()))
}

/// As whom the tasks are run, where they say so.
fn role(tasks: &[TextRow]) -> Result<Option<String>, String> {
    let mut roles: Vec<&str> = tasks.iter().map(|task| task.text("run_as").trim()).collect();
    roles.dedup();
    match roles.as_slice() {
        [] | [""] => Ok(None),
        // It stands in a SET ROLE as it is.
        [role] if role.bytes().all(|byte| byte.is_ascii_lowercase() || byte.is_ascii_digit() || byte == b'_') => {
            Ok(Some((*role).to_owned()))
        }
        [role] => Err(format!("its tasks run as {role}, which is no plain name")),
        _ => Err("its tasks run as several roles".to_owned()),
    }
}

/// The tasks as one command, and whether each of its statements is a transaction of its own.
fn script(tasks: &[TextRow]) -> Result<(String, bool), String> {
    if tasks.is_empty() {
        return Err("it has no task".to_owned());
    }
    let mut counts = Vec::new();
    for (number, task) in tasks.iter().enumerate() {
        let refused = |reason: String| Err(format!("task {}: {reason}", number + 1));
        if task.text("kind") != "SQL" {
            return refused(format!("it is of kind {}, which no server runs", task.text("kind")));
        }
        if !task.text("connection").is_empty() {
            return refused("it is run in another database".to_owned());
        }
        if is(task, "has_parameters") {
            return refused("it has parameters, and is run once for each".to_owned());
        }
        if is(task, "ignore_error") {
            return refused("its errors are ignored".to_owned());
        }
        if task.text("timeout").parse::<i64>().is_ok_and(|timeout| timeout > 0) {
            return refused("it has a timeout of its own".to_owned());
        }
        let command = task.text("command");
        if let Err(failure) = parse::check(command, Strings::STANDARD) {
            return refused(format!("its command cannot be run here: {}", failure.message));
        }
        let text = CString::new(command).unwrap_or_default();
        counts.push(parse::count(&text, Strings::STANDARD).map_err(|failure| failure.message)?);
    }
    let autonomous = tasks.iter().filter(|task| is(task, "autonomous")).count();
    if autonomous > 0 && (autonomous < tasks.len() || counts.iter().any(|count| *count > 1)) {
        return Err("some of it is run apart from the transaction of the chain (autonomous)".to_owned());
    }
    // The end of a line ends a comment.
    let commands: Vec<&str> = tasks.iter().map(|task| task.text("command")).collect();
    let command = match commands.as_slice() {
        [command] => (*command).to_owned(),
        several => several
            .iter()
            .map(|command| format!("{}\n;", command.trim_end().trim_end_matches(';')))
            .collect::<Vec<_>>()
            .join("\n"),
    };
    Ok((command, autonomous > 0))
}
