//! TimescaleDB: `bgw_job`, in `_timescaledb_config` or, in newer versions, in `_timescaledb_catalog`. What it runs, and how: its
//! sources, versions 2.0 and later.

use pgrx::pg_sys::Oid;
use scheduler_core::foreign::timescaledb::{self, Length, Rule};
use scheduler_core::job::Kind;
use scheduler_core::schedule::Overlap;
use scheduler_core::{Instant, Keyword};

use crate::pg::error::Outcome;
use crate::pg::zone::ServerZone;
use crate::store::database_clock;
use crate::store::handover::foreign::{ForeignSchema, TextRow};
use crate::store::handover::switch::{self, Switch};
use crate::store::job;

use crate::api::job as jobs;

use super::database_zone::default_zone;
use super::source::{find_tables, instant, read_runs, ForeignRow, Place, Runs, Source, Wanted};

/// See the module.
pub struct TimescaleDb;

/// Where its own procedures are, in older versions and in newer ones.
const OWN: [&str; 2] = ["_timescaledb_internal", "_timescaledb_functions"];

impl Source for TimescaleDb {
    fn find(&self, named: Option<String>, caller: Oid) -> Outcome<ForeignSchema> {
        let schemas = ["_timescaledb_catalog", "_timescaledb_config"];
        let schema = find_tables(self, named, &schemas, &[c"bgw_job"], caller)?;
        // Its rows say as whom they run.
        schema.written_by_none_but(&["bgw_job"], caller)?;
        Ok(schema)
    }

    fn rows(&self, schema: &ForeignSchema) -> Vec<ForeignRow> {
        let time_zone = default_zone(schema);
        let now = database_clock::now();
        let rows = schema.rows(include_str!("../../../sql/query/handover/timescaledb_jobs.sql"));
        let names = |row: &TextRow| match row.text("name") {
            "" => format!("job {}", row.text("id")),
            name => name.to_owned(),
        };
        let said = |row: &TextRow| {
            let columns = [
                "months",
                "days",
                "micros",
                "proc_schema",
                "proc_name",
                "owner",
                "fixed",
                "time_zone",
                "config",
                "starts",
                "kind",
            ];
            let mut said: Vec<&str> = columns.iter().map(|column| row.text(column)).collect();
            said.push(&time_zone);
            said.join("\u{1f}")
        };
        let place = |row: &TextRow| {
            Place::Here(Box::new(match row.unreadable() {
                Some((column, look)) => {
                    let look: String = look.chars().take(80).collect();
                    Err(format!("its {column} is not valid UTF-8: \"{look}\""))
                }
                None => wanted(row, &time_zone, now),
            }))
        };
        rows.iter()
            .map(|row| ForeignRow {
                id: row.text("id").to_owned(),
                name: names(row),
                said: said(row),
                place: place(row),
            })
            .collect()
    }

    fn runs(&self, _: &ForeignSchema, from: Instant, to: Instant, caller: Oid) -> Outcome<Runs> {
        let place = |name: &str| ForeignSchema { name: name.to_owned(), speaks_for_all: false };
        let with = |table| switch::TIMESCALEDB_RUNS.map(place).into_iter().find(|place| place.has(table));
        let (statistics, statement) = if let Some(place) = with(c"bgw_job_stat_history") {
            place.trust(c"bgw_job_stat_history", caller)?;
            (place, include_str!("../../../sql/query/handover/timescaledb_runs.sql"))
        } else {
            let place = with(c"bgw_job_stat").unwrap_or_else(|| place("_timescaledb_internal"));
            place.trust(c"bgw_job_stat", caller)?;
            (place, include_str!("../../../sql/query/handover/timescaledb_last_runs.sql"))
        };
        Ok(read_runs(&statistics, statement, from, to))
    }

    fn switch(&self) -> &'static Switch {
        &switch::TIMESCALEDB
    }
}

fn wanted(row: &TextRow, time_zone: &str, now: Instant) -> Result<Wanted, String> {
    let [schema, name] = ["proc_schema", "proc_name"].map(|column| row.text(column));
    if OWN.contains(&schema) {
        return Err(format!("{name} is TimescaleDB's own policy, which its own scheduler has to run"));
    }
    if row.get("kind").is_none_or(|kind| !["p", "f"].contains(&kind)) {
        return Err(format!("{schema}.{name}(integer, jsonb) is no procedure or function here"));
    }
    let zone = |name: &str| ServerZone::find(name).map_err(|failure| failure.message);
    let database_zone = zone(time_zone)?;
    let own_zone = row.get("time_zone").map(|name| zone(name).map(|zone| (name, zone))).transpose()?;
    let number = |column: &str| row.text(column).parse().map_err(|_| format!("its {column} cannot be read"));
    let every = Length { months: number("months")?, days: number("days")?, micros: number("micros")? };
    let fixed_from = if row.text("fixed") == "true" {
        Some(instant(row.get("starts")).ok_or("it has a fixed schedule and no first start")?)
    } else {
        None
    };
    let rule = Rule {
        every,
        fixed_from,
        own_zone: own_zone.as_ref().map(|(name, zone)| (*name, zone)),
        zone: (time_zone, &database_zone),
    };
    let (clock, time_zone) = timescaledb::read(&rule, now)?;
    let max_retries: i32 = row.text("max_retries").parse().unwrap_or(-1);
    let default = jobs::defaults(String::new(), Kind::Sql);
    let max_attempts = if max_retries < 0 { default.max_attempts } else { max_retries.saturating_add(1) };
    // A procedure may commit there.
    let own_transactions = row.text("kind") == "p";
    let role = row.get("role").ok_or_else(|| format!("role \"{}\" does not exist", row.text("owner")))?;
    let is_limited = !["00:00:00", ""].contains(&row.text("max_runtime"));
    let limited =
        is_limited.then(|| format!("set run_timeout: its runs are stopped there after {}", row.text("max_runtime")));
    Ok(Wanted {
        clock,
        time_zone,
        job: job::Definition {
            command: Some(row.text("command").to_owned()),
            own_transactions,
            max_attempts,
            ..default
        },
        shared_job: None,
        payload: None,
        starts_at: None,
        ends_at: None,
        role: Some(role.to_owned()),
        overlap: Overlap::Skip.as_str(),
        enabled: row.text("enabled") == "true",
        note: limited,
    })
}
