//! What `declare_schedules` reads: each element has the arguments of create_schedule, or those of schedule_sql.

use std::collections::HashSet;

use pgrx::datum::Interval;
use scheduler_core::job::Kind;

use crate::pg::convert::{self, required};
use crate::pg::error::{Failure, Outcome};
use crate::pg::jsonb::Jsonb;
use crate::pg::Session;
use crate::store::schedule::bulk::Spec;
use crate::store::schedule::{AlertSettings, Definition};

use crate::api::declared_job::{none, Pair};
use crate::api::job as jobs;
use crate::api::schedule::{armed_as_its_clock_says, check_keys};
use crate::api::schedule_bulk::{self as bulk, at, Keys};

/// What an element may have beside the arguments of create_schedule.
const OWN: [&str; 2] = ["was", "adopt"];
/// What one with a command may have: the arguments of schedule_sql.
const OF_PAIRS: [&str; 14] = [
    "schedule_name",
    "clock",
    "command",
    "time_zone",
    "payload",
    "overlap",
    "catch_up",
    "run_timeout",
    "max_attempts",
    "retry_backoff",
    "own_transactions",
    "settings",
    "priority",
    "enabled",
];

/// A schedule as it is declared.
pub struct Declaration {
    /// 1-based.
    place: usize,
    definition: Definition,
    scope_id: Option<String>,
    enabled: Option<bool>,
    was: Option<String>,
    adopts: bool,
    pair: Option<Pair>,
}

impl Declaration {
    pub fn name(&self) -> &str {
        &self.definition.schedule_name
    }

    /// The scope of its executions, where it is created.
    pub fn scope(&self) -> (&str, &str) {
        self.definition.scope()
    }

    /// What it was called before.
    pub fn was(&self) -> Option<&str> {
        self.was.as_deref()
    }

    /// Whether a schedule of no group is taken into the group.
    pub fn adopts(&self) -> bool {
        self.adopts
    }

    /// Whether it has a command.
    pub fn is_pair(&self) -> bool {
        self.pair.is_some()
    }

    /// The job of a pair of this name.
    pub fn pair(&self, name: &str) -> Option<Pair> {
        self.pair.as_ref().map(|pair| pair.named(name))
    }

    /// The schedule that is declared; of one that there is, with its default scope, what the declaration leaves to it.
    pub fn definition(&self, found: Option<(&Definition, &String)>) -> Definition {
        let mut new = self.definition.clone();
        if let Some((before, default_scope_id)) = found {
            new.scope_id = self.scope_id.clone().unwrap_or_else(|| default_scope_id.clone());
            new.enabled = self.enabled.unwrap_or(before.enabled);
            if self.is_pair() {
                // No arguments of schedule_sql: those that alter_schedule has asked for stay asked for.
                new.alerts.clone_from(&before.alerts);
            }
        }
        new
    }

    /// A failure as one of this element.
    pub fn blame(&self, failure: Failure) -> Failure {
        let name = convert::shown(self.name());
        Failure { message: format!("element {} (\"{name}\"): {}", self.place, failure.message), ..failure }
    }
}

/// Reads the array; an error names the element and the key.
pub fn read(session: &Session, specs: &Jsonb) -> Outcome<Vec<Declaration>> {
    let all: Vec<&str> = bulk::KEYS.iter().chain(&OWN).chain(&OF_PAIRS).copied().collect();
    let keys = Keys { all: &all, of: "create_schedule, or of schedule_sql, and was or adopt" };
    let declared: Vec<Declaration> = bulk::read_specs(session, specs, &keys)?
        .into_iter()
        .enumerate()
        .map(|(index, spec)| declaration(index + 1, spec))
        .collect::<Outcome<_>>()?;
    let mut names = HashSet::new();
    for one in &declared {
        if !names.insert(one.name()) {
            let message = format!("\"{}\" is declared twice", convert::shown(one.name()));
            return Err(at(
                one.place,
                "schedule_name",
                Failure::invalid(message, "Give each schedule a name of its own."),
            ));
        }
    }
    Ok(declared)
}

fn declaration(place: usize, mut spec: Spec) -> Outcome<Declaration> {
    let blame = |(key, failure): (&str, Failure)| at(place, key, failure);
    let pair = match spec.declared.command.take() {
        None => {
            refuse(place, &spec, false)?;
            None
        }
        Some(command) => {
            refuse(place, &spec, true)?;
            // (The job has the schedule's name.)
            spec.job_name.clone_from(&spec.schedule_name);
            spec.overlap.get_or_insert_with(|| "skip".to_owned());
            Some(Pair::new(pair_definition(command, &spec).map_err(|failure| at(place, "command", failure))?))
        }
    };
    let was = spec.declared.was.take().map(|was| convert::name("was", Some(was))).transpose();
    let was = was.map_err(|failure| at(place, "was", failure))?;
    let (scope_id, enabled, adopts) = (spec.scope_id.clone(), spec.enabled, spec.declared.adopt.unwrap_or(false));
    let definition = armed_as_its_clock_says(bulk::definition(spec).map_err(blame)?);
    check_keys(&definition, None).map_err(blame)?;
    Ok(Declaration { place, definition, scope_id, enabled, was, adopts, pair })
}

/// Refuses what is for the other kind: `22023`.
fn refuse(place: usize, spec: &Spec, has_command: bool) -> Outcome<()> {
    let declared = &spec.declared;
    let given = if has_command {
        [
            ("job_name", spec.job_name.is_some()),
            ("scope_kind", spec.scope_kind.is_some()),
            ("scope_id", spec.scope_id.is_some()),
            ("catch_up_window", spec.catch_up_window.is_some()),
            ("max_plans_per_tick", spec.max_plans_per_tick.is_some()),
            ("rearm", spec.rearm.is_some()),
            ("delay", spec.delay.is_some()),
            ("jitter", spec.jitter.is_some()),
            ("starts_at", spec.starts_at.is_some()),
            ("ends_at", spec.ends_at.is_some()),
            ("ownership", spec.ownership.is_some()),
            ("an alert", spec.alerts != AlertSettings::default()),
        ]
        .to_vec()
    } else {
        [
            ("run_timeout", declared.run_timeout.is_some()),
            ("max_attempts", declared.max_attempts.is_some()),
            ("retry_backoff", declared.retry_backoff.is_some()),
            ("own_transactions", declared.own_transactions.is_some()),
            ("settings", declared.settings.is_some()),
            ("priority", declared.priority.is_some()),
        ]
        .to_vec()
    };
    let Some((key, _)) = given.into_iter().find(|(_, is_given)| *is_given) else { return Ok(()) };
    let (message, hint) = if has_command {
        let taken = OF_PAIRS.join(", ");
        (
            "an element with a command does not take it".to_owned(),
            format!("It takes the arguments of schedule_sql: {taken}."),
        )
    } else {
        (
            "an element without a command does not take it".to_owned(),
            "Set it with sched.define_job, or pass command.".to_owned(),
        )
    };
    Err(at(place, key, Failure::invalid(message, hint)))
}

fn pair_definition(command: String, spec: &Spec) -> Outcome<crate::store::job::Definition> {
    let declared = &spec.declared;
    let name = required("schedule_name", spec.schedule_name.clone())?;
    let waits: Vec<Interval> = match &declared.retry_backoff {
        None => Vec::new(),
        Some(waits) => jobs::backoff(waits.iter().copied())?,
    };
    let job = crate::store::job::Definition {
        command: Some(command),
        max_attempts: declared.max_attempts.unwrap_or(1),
        retry_backoff: waits,
        run_timeout: declared.run_timeout,
        priority: declared.priority.unwrap_or(0),
        own_transactions: declared.own_transactions.unwrap_or(false),
        settings: declared.settings.clone().unwrap_or_else(Jsonb::empty),
        ..jobs::defaults(name, Kind::Sql)
    };
    jobs::check(&job)?;
    Ok(job)
}

/// Each argument of a schedule as text.
pub fn texts(schedule: &Definition) -> Vec<(&'static str, String)> {
    let text = |value: &String| value.clone();
    let time = |time: Option<_>| time.map_or_else(none, convert::shown_time);
    let length = |length: Option<Interval>| length.map_or_else(none, convert::shown_interval);
    vec![
        ("schedule_name", text(&schedule.schedule_name)),
        ("clock", text(&schedule.clock)),
        ("time_zone", text(&schedule.time_zone)),
        ("job_name", text(&schedule.job_name)),
        ("payload", schedule.payload.text()),
        ("scope_kind", text(&schedule.scope_kind)),
        ("scope_id", text(&schedule.scope_id)),
        ("catch_up", text(&schedule.catch_up)),
        ("catch_up_window", length(schedule.catch_up_window)),
        ("max_plans_per_tick", schedule.max_plans_per_tick.to_string()),
        ("rearm", text(&schedule.rearm)),
        ("overlap", text(&schedule.overlap)),
        ("delay", length(Some(schedule.delay))),
        ("jitter", length(Some(schedule.jitter))),
        ("starts_at", time(schedule.starts_at)),
        ("ends_at", time(schedule.ends_at)),
        ("ownership", text(&schedule.ownership)),
        ("enabled", schedule.enabled.to_string()),
        ("max_lateness", length(schedule.alerts.max_lateness)),
        ("max_duration", length(schedule.alerts.max_duration)),
        ("expect_success_within", length(schedule.alerts.expect_success_within)),
        ("alert_job", schedule.alerts.alert_job.clone().unwrap_or_else(none)),
    ]
}
