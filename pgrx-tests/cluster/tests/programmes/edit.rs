//! What happens to a schedule: the SQL of it, and what the model is told.

use super::model::{CatchUp, Change, Overlap, Policy, Schedule};
use super::{Programme, Random, STEP};

pub const EVERY: [i64; 5] = [STEP, STEP, 2 * STEP, 3 * STEP, 7 * STEP];
const CATCH_UP: [CatchUp; 3] = [CatchUp::LatestOnly, CatchUp::EveryPlan, CatchUp::SkipMissed];
const OVERLAP: [Overlap; 3] = [Overlap::Allow, Overlap::Skip, Overlap::BufferOne];

pub fn any_policy(random: &mut Random) -> Policy {
    Policy {
        catch_up: random.pick(&CATCH_UP),
        overlap: random.pick(&OVERLAP),
        on_terminal: random.one_in(3),
        window: random.pick(&[None, None, Some(STEP), Some(3 * STEP), Some(8 * STEP)]),
        delay: random.pick(&[0, 0, 0, STEP / 2, STEP, 3 * STEP]),
        most: random.pick(&[1, 2, 3, 100]),
    }
}

fn interval(seconds: Option<i64>) -> String {
    seconds.map_or("NULL".to_owned(), |seconds| format!("interval '{seconds} seconds'"))
}

fn after_creation(name: &str, seconds: i64) -> String {
    format!("(SELECT created_at + interval '{seconds} seconds' FROM sched.schedule WHERE schedule_name = '{name}')")
}

/// The arguments of create_schedule and alter_schedule for these policies; what is not there is named in `reset`.
pub fn arguments(policy: &Policy) -> String {
    let Policy { catch_up, overlap, on_terminal, window, delay, most } = policy;
    let catch_up = match catch_up {
        CatchUp::LatestOnly => "latest_only",
        CatchUp::EveryPlan => "every_plan",
        CatchUp::SkipMissed => "skip_missed",
    };
    let overlap = match overlap {
        Overlap::Allow => "allow",
        Overlap::Skip => "skip",
        Overlap::BufferOne => "buffer_one",
    };
    let rearm = if *on_terminal { "on_terminal" } else { "on_dispatch" };
    format!(
        "catch_up => '{catch_up}', overlap => '{overlap}', rearm => '{rearm}', catch_up_window => {},
         delay => interval '{delay} seconds', max_plans_per_tick => {most}",
        interval(*window)
    )
}

pub fn define_job(name: &str, done_at_once: bool) -> String {
    let kind = if done_at_once { "'notify', 'channel'" } else { "'pull'" };
    format!("SELECT sched.define_job('{name}', {kind}, max_attempts => 3, retry_backoff => '{{100 days}}');\n")
}

/// An edit at `at`: the SQL, and what it says. A schedule whose job is gone cannot be edited.
pub fn change(name: &str, model: &Schedule, random: &mut Random, at: i64) -> (String, Change) {
    let mut new = model.definition;
    let alter = |arguments: &str| format!("SELECT sched.alter_schedule('{name}', {arguments});");
    let statement = match random.below(12) {
        0..=1 => {
            new.every = random.pick(&EVERY);
            alter(&format!("'every {} seconds'", new.every))
        }
        2..=4 => {
            new.enabled = !new.enabled;
            format!("SELECT sched.{}('{name}');", if new.enabled { "resume" } else { "pause" })
        }
        5 => {
            new.owned = !new.owned;
            alter(&format!("ownership => '{}'", if new.owned { "owned" } else { "external" }))
        }
        6 if new.starts.is_none() && new.ends.is_none() => {
            let from = at.div_euclid(STEP / 2) * (STEP / 2) + STEP * (random.below(8) as i64 - 3);
            new.starts = Some(from).filter(|_| random.one_in(2));
            new.ends =
                Some(from + STEP * (1 + random.below(20) as i64)).filter(|_| new.starts.is_none() || random.one_in(2));
            let argument = |name: &str, which: &str, at: Option<i64>| {
                at.map(|at| format!("{which} => {}", after_creation(name, at)))
            };
            let both: Vec<String> = argument(name, "starts_at", new.starts)
                .into_iter()
                .chain(argument(name, "ends_at", new.ends))
                .collect();
            alter(&both.join(", "))
        }
        6 => {
            (new.starts, new.ends) = (None, None);
            alter("reset => '{starts_at, ends_at}'")
        }
        7..=9 => {
            let policy = any_policy(random);
            let reset = if policy.window.is_none() { ", reset => '{catch_up_window}'" } else { "" };
            return (alter(&format!("{}{reset}", arguments(&policy))), Change::Policy(policy));
        }
        10 => {
            let scope = 1 - model.scope;
            return (alter(&format!("scope_id => '{}'", scope_id(name, scope))), Change::Scope(scope));
        }
        _ => return (alter("payload => '{\"x\": 1}'"), Change::Payload),
    };
    (statement, Change::Definition(new))
}

/// One thing that happens to a schedule at `now`; `None` where it cannot.
pub fn edit(programme: &mut Programme, random: &mut Random, now: i64) -> Option<String> {
    let (name, model) = (&programme.name, &mut programme.model);
    // An edit says what is wrong with a schedule whose job is gone.
    let kind = if model.job_is_gone { 16 + random.below(8) } else { random.below(26) };
    match kind {
        0..=11 => {
            let (statement, change) = change(name, model, random, now);
            model.apply(change, now);
            programme.edited_at = now;
            Some(statement)
        }
        12 => {
            // Somebody else runs a plan time, of the future or one that was passed over.
            let plan = (now / STEP - 6 + random.below(13) as i64).max(1) * STEP;
            let claim = format!(
                "SELECT sched.try_claim('{name}', {}, 'schedule', '{}');",
                after_creation(name, plan),
                scope_id(name, model.scope)
            );
            model.hold(plan).then_some(claim)
        }
        13 => Some(format!("SELECT sched.fire_now('{name}');")),
        14 => {
            model.job_is_gone = true;
            Some(format!("DELETE FROM sched.job WHERE job_name = '{name}';"))
        }
        15..=17 if model.job_is_gone => {
            model.mend();
            Some(define_job(name, model.done_at_once))
        }
        24..=25 => {
            // A backfill ends in the past, and a schedule is a moment younger than the world.
            let to = now - 60 - STEP * random.below(4) as i64;
            let from = to - STEP * (1 + random.below(12) as i64);
            let (from, to) = (from.max(1), to.max(2));
            model.backfill(from, to);
            let (from, to) = (after_creation(name, from), after_creation(name, to));
            Some(format!("SELECT sched.backfill('{name}', {from}, {to});"))
        }
        _ => {
            let run = model.runs.first()?.plan;
            let how = random.pick(&["success", "success", "failure", "cancel", "retry"]);
            // One that is retried would have to be waited for, and is of no interest.
            (how != "retry").then(|| {
                model.end(run, now);
                format!("SELECT end_run('{name}', {run}, '{how}');")
            })
        }
    }
}

fn scope_id(name: &str, scope: usize) -> String {
    if scope == 0 {
        name.to_owned()
    } else {
        format!("{name}/other")
    }
}
