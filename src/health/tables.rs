//! What our tables say: each answer is an index probe or a few of them.

use pgrx::pg_sys::{self, Oid};
use scheduler_core::health::{self, Component, Severity};
use scheduler_core::schedule::MAX_PAYLOAD_BYTES;
use scheduler_core::time::units::duration;
use scheduler_core::Instant;

use crate::dispatch;
use crate::guc;
use crate::health::{counted, Finding, Look};
use crate::pg::{oid_cache, role};
use crate::shmem::counters;
use crate::shmem::registry::{self, rest, Presence};
use crate::shmem::runners::{shares, Limits};
use crate::store::health as store;
use crate::store::queue::elsewhere_queue::is_elsewhere_queue;
use crate::store::queue::{pause, runner_queue};
use crate::store::schedule::ahead::{self, Ahead};

/// (What came up since the look began is no older than nothing.)
fn age(since: Instant, now: Instant) -> i64 {
    now.as_micros().saturating_sub(since.as_micros()).max(0)
}

/// Since when the server could have fired what is due: what came due while it was down is no fault of those who have just started.
fn started_at() -> Instant {
    // SAFETY: set before any process of the server begins.
    let started_at = counters::made_at().unwrap_or(unsafe { pg_sys::PgStartTime });
    Instant::from_micros(started_at).unwrap_or(Instant::MIN)
}

/// How many schedules or queues are named.
const MOST_NAMES: usize = 5;
/// How many queues are counted in which executions wait for too long.
const MOST_STUCK: usize = 100;

/// The oldest timer that is due and did not fire, and for how long it has been so while the server was up. A schedule whose change no dispatcher has applied has no
/// timer that is right: it is asked when it should have fired.
pub fn dispatch(look: &Look) -> (Finding, i64) {
    let component = Component::Dispatch;
    if let Some(unreadable) =
        look.unreadable(component, &[c"timer", c"schedule", c"schedule_change", c"job", c"ledger"])
    {
        return (unreadable, 0);
    }
    if look.is_copy() {
        return (Finding::ok(component, "nothing is to fire in a copy"), 0);
    }
    if look.standby {
        return (Finding::ok(component, "standby: the primary fires"), 0);
    }
    if look.dispatch_off {
        return (
            Finding::ok(
                component,
                "sched.dispatch is off for the database: what is due fires only by sched.dispatch_due()",
            ),
            0,
        );
    }
    let session = look.owner.session();
    let due = store::due(session, look.now);
    let unapplied = dispatch::due_once_applied(session, due.changed, look.now);
    let Some(oldest) = due.oldest.into_iter().chain(unapplied.iter().copied().min()).min() else {
        return (Finding::ok(component, "nothing is due"), 0);
    };
    let count = due.count + i64::try_from(unapplied.len()).unwrap_or(0);
    // (By a clock that was set back the server starts later than now.)
    let started_at = Some(started_at()).filter(|started_at| *started_at <= look.now).unwrap_or(Instant::MIN);
    let lateness = age(oldest.max(started_at), look.now);
    let since = duration(age(oldest, look.now));
    let message = format!("the oldest timer that is due has not fired for {since}; {} due", counted(count));
    // SAFETY: reads a global of the process.
    let cause = match registry::presence(unsafe { pg_sys::MyDatabaseId.to_u32() }) {
        Presence::Here(pid) if guc::enabled() => format!(
            "The dispatcher is process {pid}: pg_stat_activity says what it waits for, and the server's log what failed. If it was stopped, pg_terminate_backend({pid}) has the launcher start another."
        ),
        Presence::Here(_) | Presence::Coming | Presence::Absent => {
            "What keeps dispatchers from working say those of the rows launcher, dispatcher and worker_slots that are not ok, and the server's log.".to_owned()
        }
    };
    let hint = format!("{cause} Any session can fire what is due: SELECT sched.dispatch_due().");
    (Finding::bad(component, health::of_lateness(lateness), oldest, [message, hint]), lateness)
}

/// The oldest execution that could be claimed, of those that applications claim.
pub fn queues(look: &Look) -> Finding {
    let component = Component::Queues;
    if let Some(unreadable) = look.unreadable(component, &[c"ready", c"ledger", c"paused_queue"]) {
        return unreadable;
    }
    if look.is_copy() || look.standby {
        return Finding::ok(component, "nothing is to be claimed here");
    }
    let is_stuck = |since: &Instant| age(*since, look.now) > health::LONGEST_WAIT;
    let mut waiting = waiting(look, |queue| !runner_queue::is_runner_queue(queue) && !is_elsewhere_queue(queue));
    let Some((queue, since)) = waiting.next() else {
        return Finding::ok(component, "nothing waits to be claimed".to_owned() + &undefined_jobs(look));
    };
    let waits = duration(age(since, look.now));
    if !is_stuck(&since) {
        let message = format!("the longest wait is {waits}{}", of_queue(look, &queue));
        return Finding::ok(component, message + &undefined_jobs(look));
    }
    let others = waiting.take_while(|(_, since)| is_stuck(since)).map(|(queue, _)| queue);
    let stuck: Vec<String> = std::iter::once(queue).chain(others).take(MOST_STUCK).collect();
    let message = if let [queue] = stuck.as_slice() {
        format!("an execution{} could be claimed for {waits}", of_queue(look, queue))
    } else {
        let least = if stuck.len() == MOST_STUCK { "at least " } else { "" };
        let message = format!("executions of {least}{} queues could be claimed, the first for {waits}", stuck.len());
        if reads_all(look) {
            format!("{message}: {}", first_of(&stuck, MOST_NAMES))
        } else {
            message
        }
    };
    let hint = "Does a worker claim from each of these queues, and are there enough of them?";
    Finding::warning(component, since, message + &undefined_jobs(look), hint)
}

/// The first names of a list, in quotes, and how many more there are.
fn first_of(names: &[String], most: usize) -> String {
    let named: Vec<String> = names.iter().take(most).map(|name| format!("\"{name}\"")).collect();
    let more = if names.len() > most { format!(" and {} more", names.len() - most) } else { String::new() };
    named.join(", ") + &more
}

/// Names jobs that somebody may have forgotten to define: their executions are tried once. No fault, for whoever wants a ledger only has none.
fn undefined_jobs(look: &Look) -> String {
    const MOST_NAMES: usize = 3;
    if look.unreadable(Component::Queues, &[c"retry", c"lease", c"job"]).is_some() {
        return String::new();
    }
    let names = store::undefined_jobs(look.owner.session(), look.reader, reads_all(look), look.now);
    if names.is_empty() {
        return String::new();
    }
    let named = first_of(&names, MOST_NAMES);
    format!("; executions of jobs that sched.define_job has not defined have one attempt: {named}")
}

/// The name of a queue, for who may know everybody's.
fn of_queue(look: &Look, queue: &str) -> String {
    if reads_all(look) {
        format!(" of queue \"{queue}\"")
    } else {
        String::new()
    }
}

fn reads_all(look: &Look) -> bool {
    role::reads_everything(look.reader, oid_cache::relation(look.owner.schema, c"monitor"))
}

/// The queues that are `meant` and that nobody has paused, and since when the first entry of each waits: the longest first.
fn waiting<'l>(look: &'l Look, is_meant: impl Fn(&str) -> bool + 'l) -> impl Iterator<Item = (String, Instant)> + 'l {
    let session = look.owner.session();
    let queues = store::queues(session, look.now).into_iter();
    let meant = queues
        .filter(move |(queue, _)| is_meant(queue) && !pause::is_paused(session, queue, runner_queue::owner(queue)));
    meant.filter_map(|(queue, since)| since.map(|since| (runner_queue::user_queue(&queue).to_owned(), since)))
}

/// Leases that ran out, of runs that nobody has ended.
pub fn leases(look: &Look) -> Finding {
    let component = Component::Leases;
    if let Some(unreadable) = look.unreadable(component, &[c"lease"]) {
        return unreadable;
    }
    if look.is_copy() || look.standby {
        return Finding::ok(component, "no run is to be ended here");
    }
    let before = Instant::from_micros(look.now.as_micros().saturating_sub(2 * guc::tick_interval()));
    let (count, first) = store::stale_leases(look.owner.session(), before.unwrap_or(Instant::MIN));
    match first {
        None => Finding::ok(component, "no lease that ran out is left"),
        Some(first) => {
            let message = format!("{} leases ran out and their runs were not ended", counted(count));
            let hint = "A dispatcher does that: look at its row. Any session can: SELECT sched.mark_stale_as_failed().";
            Finding::warning(component, first, message, hint)
        }
    }
}

/// SQL jobs that wait for a process.
pub fn runners(look: &Look) -> Finding {
    let component = Component::Runners;
    if let Some(unreadable) = look.unreadable(component, &[c"ready", c"ledger", c"paused_queue"]) {
        return unreadable;
    }
    let Some((_, since)) = waiting(look, runner_queue::is_runner_queue).next() else {
        return Finding::ok(component, "no SQL job waits for a process");
    };
    let waits = age(since, look.now);
    let message = format!("an SQL job has waited for {} for a process", duration(waits));
    if look.is_copy() || look.standby {
        return Finding::ok(component, "SQL jobs are not to run here");
    }
    if guc::max_sql_runners() == 0 {
        let hint = "Set sched.max_sql_runners to more than 0 and reload the server's configuration.";
        return Finding::warning(component, since, format!("{message}: sched.max_sql_runners is 0"), hint);
    }
    let severity = if waits > health::LONGEST_WAIT_FOR_RUNNER { Severity::Warning } else { Severity::Ok };
    if severity == Severity::Warning && rest::is_lacking() {
        // SAFETY: reads a global of the process.
        let slots = unsafe { pg_sys::max_worker_processes };
        let message = format!("{message}: the server has no worker slot for one (max_worker_processes is {slots})");
        let hint =
            "Raise max_worker_processes and restart the server. What runs now goes on, and frees its slot at its end.";
        return Finding::bad(component, Severity::Critical, since, [message, hint.to_owned()]);
    }
    let roles = roles_in_line(look);
    if !roles.is_empty() {
        let most = guc::max_sql_runners_per_role();
        let message = format!("{message}; runs of {roles} wait for sched.max_sql_runners_per_role ({most})");
        let hint =
            "Raise sched.max_sql_runners_per_role, or look in sched.running which runs of that role take so long.";
        return Finding::bad(component, severity, since, [message, hint.to_owned()]);
    }
    let hint = "Raise sched.max_sql_runners, or look in sched.running which run takes so long. Is a slot of max_worker_processes free?";
    Finding::bad(component, severity, since, [message, hint.to_owned()])
}

/// The roles whose runs wait because they have as many runners as a role may have; their names for who may know whose work that is.
fn roles_in_line(look: &Look) -> String {
    const MOST_NAMES: usize = 3;
    let limits = Limits { most: guc::max_sql_runners(), per_role: guc::max_sql_runners_per_role(), lacking: false };
    // SAFETY: reads a global of the process.
    let roles = shares::roles_in_line(unsafe { pg_sys::MyDatabaseId.to_u32() }, limits);
    match (roles.len(), reads_all(look)) {
        (0, _) => String::new(),
        (count, false) => format!("{count} role{}", if count == 1 { "" } else { "s" }),
        (count, true) => {
            let named = roles.iter().take(MOST_NAMES).map(|owner| format!("\"{}\"", role::name(Oid::from(*owner))));
            let more = if count > MOST_NAMES { format!(" and {} more", count - MOST_NAMES) } else { String::new() };
            format!("role {}{more}", named.collect::<Vec<_>>().join(", "))
        }
    }
}

/// Schedules that are parked or fail, and alerts that are open: but for those that somebody has acknowledged.
pub fn schedules(look: &Look) -> Finding {
    let component = Component::Schedules;
    if let Some(unreadable) = look.unreadable(component, &[c"timer", c"schedule", c"job", c"alert"]) {
        return unreadable;
    }
    if look.is_copy() {
        return Finding::ok(component, "no schedule is to fire in a copy");
    }
    let (session, reads_all) = (look.owner.session(), reads_all(look));
    let found = store::troubled_schedules(session, look.reader, reads_all);
    let alerts = store::open_alerts(session, look.reader, reads_all);
    let ahead = ahead_of_the_clock(look, reads_all);
    let long = store::long_payloads(session, look.reader, reads_all);
    let is_troubled = found.parked + found.failing > 0;
    if !is_troubled && alerts.is_empty() && ahead.is_none() && long.count == 0 {
        return Finding::ok(component, "none is parked or fails, and no alert is open");
    }
    let troubled = is_troubled.then(|| format!("{} parked, {} failing", counted(found.parked), counted(found.failing)));
    let kinds: Vec<String> = alerts.iter().map(|alerts| format!("{} {}", counted(alerts.count), alerts.kind)).collect();
    let open = (!kinds.is_empty()).then(|| format!("open alerts: {}", kinds.join(", ")));
    let worst = found.worst.or_else(|| alerts.first().and_then(|alerts| alerts.worst.clone()));
    let worst = worst.map(|name| format!("the worst is \"{name}\""));
    let ownerless = (!found.ownerless.is_empty()).then(|| {
        let named: Vec<String> = found.ownerless.iter().take(MOST_NAMES).map(|name| format!("\"{name}\"")).collect();
        let more = if found.ownerless.len() > MOST_NAMES { ", …" } else { "" };
        format!("the owner of the job was dropped of {}{more}", named.join(", "))
    });
    let ahead = ahead.map(|ahead| {
        format!("the clock was set back: {} (the last of them is silent until {})", ahead.described(""), ahead.until)
    });
    let set_back = ahead.is_some();
    let message = [troubled, ownerless, open, worst, ahead, long_payloads(&long)]
        .into_iter()
        .flatten()
        .collect::<Vec<_>>()
        .join("; ");
    let hint = "sched.alerts says what is open, and last_error in sched.schedules why a schedule is parked or fails. A parked one fires again once sched.alter_schedule or sched.define_job has put that right. sched.acknowledge silences an alert for a while.";
    let only_long = !is_troubled && alerts.is_empty() && !set_back;
    let mut hint = if only_long { String::new() } else { hint.to_owned() };
    if set_back {
        hint.push_str(" Once the clock is right, any sched.alter_schedule has a schedule that lies ahead of it begin anew, sched.adopt() all of them.");
    }
    if long.count > 0 {
        hint.push_str(if only_long { "" } else { " " });
        hint.push_str("Give a schedule with a long payload a shorter one with sched.alter_schedule: other schedules wait while it fires.");
    }
    let since = alerts.iter().filter_map(|alerts| alerts.since).chain(found.since).chain(long.since).min();
    Finding::warning(component, since.unwrap_or(look.now), message, &hint)
}

/// Names some of the schedules whose payload is longer than a new one may be, if there are some.
fn long_payloads(long: &store::LongPayloads) -> Option<String> {
    let named: Vec<String> = long.names.iter().take(MOST_NAMES).map(|name| format!("\"{name}\"")).collect();
    let names = if named.is_empty() { String::new() } else { format!(": {}", named.join(", ")) };
    let more = if long.names.len() > MOST_NAMES { ", …" } else { "" };
    (long.count > 0)
        .then(|| format!("{} with a payload over {MAX_PAYLOAD_BYTES} bytes{names}{more}", counted(long.count)))
}

/// Schedules that are silent because the clock was ahead and has been set back. The schedules are gone through only where a dispatcher has
/// found some, or what was written last was written by a clock that was ahead.
fn ahead_of_the_clock(look: &Look, reads_all: bool) -> Option<Ahead> {
    let needed = [c"ledger", c"schedule_definition"];
    if look.unreadable(Component::Schedules, &needed).is_some() {
        return None;
    }
    let (session, horizon) = (look.owner.session(), look.now.checked_add_micros(health::LONGEST_SILENCE)?);
    // SAFETY: reads a global of the process.
    let database = unsafe { pg_sys::MyDatabaseId.to_u32() };
    let was_seen = registry::ahead_until(database) > horizon.as_micros();
    let is_likely = was_seen || ahead::is_likely(session, horizon);
    let found = is_likely.then(|| ahead::schedules(session, horizon, look.reader, reads_all)).flatten();
    if was_seen && found.is_none() {
        // All of them have begun anew.
        registry::set_ahead_until(database, None);
    }
    found
}

/// Whether the database is a copy.
pub fn home(look: &Look) -> Finding {
    let component = Component::Home;
    if let Some(unreadable) = look.unreadable(component, &[c"home"]) {
        return unreadable;
    }
    if look.is_copy() && look.dispatch_off {
        let message = "the database is a copy and stays one, for sched.dispatch is off for it: nothing fires";
        return Finding::ok(component, message);
    }
    if look.is_copy() {
        // What is locked is there.
        let is_locked = [c"schedule", c"ready", c"retry", c"lease"].iter().any(|table| look.locked.contains(table));
        let has_work = is_locked || store::copy_has_work(look.owner.session());
        let severity = if has_work { Severity::Critical } else { Severity::Warning };
        let message = "the database is a copy that nobody has adopted: nothing fires and nothing is claimed";
        let hint = "Call sched.adopt() in it if its schedules are to fire and its work is to be claimed here. If it is to stay a copy: ALTER DATABASE … SET sched.dispatch = off.";
        return Finding::bad(component, severity, look.now, [message.to_owned(), hint.to_owned()]);
    }
    Finding::ok(component, "the database is at home")
}
