//! `alter_job`: a definition of which only some arguments are said.

use pgrx::datum::Interval;
use pgrx::prelude::*;
use scheduler_core::job::{Attribute, Kind};
use scheduler_core::Keyword;

use crate::pg::array::Many;
use crate::pg::convert::{self, required};
use crate::pg::error::{or_raise, Failure, Outcome};
use crate::pg::jsonb::Jsonb;
use crate::pg::role_argument::RoleArgument;
use crate::pg::utf8_text::Text;
use crate::pg::{role, run_settings, session};
use crate::store::job::{self, Definition};

use crate::api::job::{backoff, check, check_command_of, check_own, defaults, hand_over, known_kind, write, Runs};

#[pg_extern(schema = "sched", name = "alter_job", volatile, parallel_unsafe)]
#[allow(clippy::too_many_arguments)]
fn alter_job_and_owner(
    job_name: Option<Text>,
    kind: default!(Option<Text>, "NULL"),
    command: default!(Option<Text>, "NULL"),
    queue: default!(Option<Text>, "NULL"),
    max_attempts: default!(Option<i32>, "NULL"),
    retry_backoff: default!(Option<Many<Interval>>, "NULL"),
    run_timeout: default!(Option<Interval>, "NULL"),
    stale_timeout: default!(Option<Interval>, "NULL"),
    allow_stale_reentry: default!(Option<bool>, "NULL"),
    priority: default!(Option<i32>, "NULL"),
    own_transactions: default!(Option<bool>, "NULL"),
    settings: default!(Option<Jsonb>, "NULL"),
    reset: default!(Option<Many<Text>>, "'{}'"),
    owner: default!(Option<RoleArgument>, "NULL"),
) {
    or_raise((|| {
        let name = convert::name("job_name", job_name)?;
        let is_given = |attribute| match attribute {
            Attribute::Kind => kind.is_some(),
            Attribute::Command => command.is_some(),
            Attribute::Queue => queue.is_some(),
            Attribute::MaxAttempts => max_attempts.is_some(),
            Attribute::RetryBackoff => retry_backoff.is_some(),
            Attribute::RunTimeout => run_timeout.is_some(),
            Attribute::StaleTimeout => stale_timeout.is_some(),
            Attribute::AllowStaleReentry => allow_stale_reentry.is_some(),
            Attribute::Priority => priority.is_some(),
            Attribute::OwnTransactions => own_transactions.is_some(),
            Attribute::Settings => settings.is_some(),
        };
        let reset = attributes(reset.unwrap_or_default(), is_given)?;
        let say_what_runs = [Attribute::Kind, Attribute::Command, Attribute::Settings, Attribute::OwnTransactions];
        let is_said = say_what_runs.iter().any(|one| is_given(*one) || reset.contains(one));
        let states = |attribute: Attribute| is_given(attribute) || reset.contains(&attribute);
        let (states_command, states_settings) = (states(Attribute::Command), states(Attribute::Settings));
        let kind = kind.map(|word| known_kind(&word)).transpose()?;
        let queue = queue.map(|queue| convert::queue(Some(queue))).transpose()?;
        let retry_backoff = retry_backoff.map(backoff).transpose()?;
        // As the caller: inside of `session` the rights are those of the extension's owner, who may set any setting.
        settings.as_ref().map_or(Ok(()), run_settings::check)?;
        let new_owner = owner.map(RoleArgument::existing).transpose()?;
        let caller = role::caller();
        session(|session| {
            check_own(session, &name, caller)?;
            let Some((owner, current)) = job::lock_definition(session, &name) else {
                return Err(Failure::unknown("job", &name, "Look for its name in the view sched.jobs."));
            };
            if !role::may_act_for(caller, owner) {
                return Err(Failure::not_owner("job", &name));
            }
            // A command and settings that a role has written run as another one, for which that role may not act.
            let is_of_another = new_owner.is_some_and(|new| !role::exists(owner) || !role::may_act_for(owner, new));
            if let Some(new) = new_owner {
                if is_of_another && !states_command && current.command.is_some() {
                    check_command_of(&name, owner, new)?;
                }
                hand_over(session, &name, owner, new, caller)?;
            }
            let runs = match is_said {
                // A superuser says who is to run it.
                _ if new_owner.is_some() && role::is_superuser(caller) => Runs::Theirs,
                true if states_command && (states_settings || current.settings == Jsonb::empty()) => Runs::Define,
                true => Runs::Change,
                false => Runs::Keep,
            };
            let kind = kind.unwrap_or(if reset.contains(&Attribute::Kind) { Kind::Pull } else { current.kind });
            let mut base = reset_to(current, defaults(name, kind), &reset);
            if is_of_another && states_command {
                base.settings = Jsonb::empty();
            }
            let new = Definition {
                command: command.map(String::from).or(base.command),
                queue: queue.unwrap_or(base.queue),
                max_attempts: max_attempts.unwrap_or(base.max_attempts),
                retry_backoff: retry_backoff.unwrap_or(base.retry_backoff),
                run_timeout: run_timeout.or(base.run_timeout),
                stale_timeout: stale_timeout.or(base.stale_timeout),
                allow_stale_reentry: allow_stale_reentry.unwrap_or(base.allow_stale_reentry),
                priority: priority.unwrap_or(base.priority),
                own_transactions: own_transactions.unwrap_or(base.own_transactions),
                settings: settings.unwrap_or(base.settings),
                job_name: base.job_name,
                kind,
            };
            check(&new)?;
            write(session, &new, caller, runs)
        })
    })());
}

/// The entries of `reset`: attributes that are not given as well; `22023`.
fn attributes(reset: Many<Text>, is_given: impl Fn(Attribute) -> bool) -> Outcome<Vec<Attribute>> {
    let attribute = |entry: Option<Text>| {
        let word = required("an element of reset", entry)?;
        match Attribute::parse(&word) {
            Some(attribute) if is_given(attribute) => Err(Failure::invalid(
                format!("{} is both given and reset", attribute.as_str()),
                "Pass a value for it, or its name in reset, and leave the other one out.",
            )),
            Some(attribute) => Ok(attribute),
            None => Err(Failure::invalid(
                format!("cannot reset \"{}\"", convert::shown(&word)),
                format!("Name some of {}.", Attribute::list()),
            )),
        }
    };
    reset.into_iter().map(attribute).collect()
}

/// A job with the defaults for these attributes.
fn reset_to(mut job: Definition, default: Definition, attributes: &[Attribute]) -> Definition {
    for attribute in attributes {
        match attribute {
            Attribute::Kind => job.kind = default.kind,
            Attribute::Command => job.command.clone_from(&default.command),
            Attribute::Queue => job.queue.clone_from(&default.queue),
            Attribute::MaxAttempts => job.max_attempts = default.max_attempts,
            Attribute::RetryBackoff => job.retry_backoff.clone_from(&default.retry_backoff),
            Attribute::RunTimeout => job.run_timeout = default.run_timeout,
            Attribute::StaleTimeout => job.stale_timeout = default.stale_timeout,
            Attribute::AllowStaleReentry => job.allow_stale_reentry = default.allow_stale_reentry,
            Attribute::Priority => job.priority = default.priority,
            Attribute::OwnTransactions => job.own_transactions = default.own_transactions,
            Attribute::Settings => job.settings.clone_from(&default.settings),
        }
    }
    job
}
