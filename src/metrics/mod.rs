//! What `sched.metrics` shows: what was counted in shared memory, and how things stand, by the tables. As `health` it never waits: a table that
//! somebody keeps to himself is left out, with what it would have said.

use std::collections::BTreeMap;
use std::ffi::CStr;

use pgrx::pg_sys::{self, Oid};
use scheduler_core::metrics::{Counts, Family, Sample};
use scheduler_core::Instant;

use crate::guc;
use crate::pg::objects_version::Fit;
use crate::pg::{oid_cache, relation_lock, role, Owner};
use crate::shmem::counters::{self, Reading, OTHER};
use crate::store::health;
use crate::store::identity::{self, Home};
use crate::store::metrics::{self as store, QueueState, Reader};

/// How many queues have gauges of their own: as many as have counters.
const MOST_QUEUES: usize = 200;

/// The tables that are read here.
const TABLES: [&CStr; 10] =
    [c"home", c"timer", c"schedule", c"job", c"ready", c"retry", c"lease", c"ledger", c"paused_queue", c"alert"];

/// All that a role may know, family by family.
pub fn collect(owner: &Owner, reader: Oid, now: Instant) -> Vec<Sample> {
    let reads_all = role::reads_everything(reader, oid_cache::relation(owner.schema, c"monitor"));
    let reader = Reader { role: reader, reads_all };
    let mut samples = Vec::new();
    if let Some(reading) = counters::read() {
        push_counters(&mut samples, &reading, reader);
    }
    push_gauges(&mut samples, owner, reader, now);
    samples.sort_by_key(|sample| sample.family);
    samples
}

/// What was counted.
fn push_counters(samples: &mut Vec<Sample>, reading: &Reading, reader: Reader) {
    // Several series may be of one name: a job's under two owners, a job called `other`.
    let mut by_name: BTreeMap<[&str; 2], Counts> = BTreeMap::new();
    for series in &reading.series {
        let may_know = reader.reads_all || series.owner.is_some_and(|owner| role::may_act_for(reader.role, owner));
        if may_know {
            by_name.entry([&series.job, &series.queue]).or_default().absorb(&series.counts);
        }
    }
    for ([job, queue], counts) in by_name {
        let labels = [("job", job.to_owned()), ("queue", queue.to_owned())];
        Family::ALL.iter().for_each(|family| counts.samples(*family, &labels, samples));
    }
    samples.push(Sample { family: Family::Ticks, suffix: "_total", labels: Vec::new(), value: reading.ticks as f64 });
    if let Some(since) = Instant::from_micros(reading.since) {
        samples.push(Sample::gauge(Family::CountersReset, Vec::new(), unix_seconds(since)));
    }
}

/// How things stand.
fn push_gauges(samples: &mut Vec<Sample>, owner: &Owner, reader: Reader, now: Instant) {
    let locked = relation_lock::try_share_all(owner.schema, &TABLES);
    let session = owner.session();
    let is_readable = |tables: &[&CStr]| tables.iter().all(|table| !locked.contains(table));
    // Other tables have other columns.
    if matches!(session.check_version(), Fit::None(_)) {
        return;
    }
    // Nothing of ours acts in a copy: what waits there is no sign of trouble, nor is an alert of its original.
    let is_copy = is_readable(&[c"home"]) && identity::load(|| session) == Home::Elsewhere;
    let mut push = |family, value| samples.push(Sample::gauge(family, Vec::new(), value));
    push(Family::Enabled, f64::from(u8::from(guc::enabled())));
    if is_readable(&[c"timer", c"schedule", c"home"]) {
        let timers = store::timers(session, now);
        // SAFETY: reads shared memory.
        let standby = unsafe { pg_sys::RecoveryInProgress() };
        let fires_here = !standby && !is_copy && guc::dispatch_of_database() != Some(false);
        push(Family::TimersDue, if fires_here { timers.due as f64 } else { 0.0 });
        if let Some(next) = timers.next {
            push(Family::NextFire, unix_seconds(next));
        }
        if let Some(armed) = store::armed(owner) {
            push(Family::TimersArmed, armed.round());
        }
    }
    if is_readable(&[c"timer", c"schedule", c"job", c"alert"]) {
        let troubled = health::troubled_schedules(session, reader.role, reader.reads_all);
        push(Family::SchedulesParked, troubled.parked as f64);
        push(Family::SchedulesFailing, troubled.failing as f64);
    }
    if is_readable(&[c"alert", c"schedule", c"job"]) {
        let alerts = health::open_alerts(session, reader.role, reader.reads_all);
        let open = alerts.iter().map(|alerts| alerts.count as f64).sum();
        push(Family::AlertsOpen, if is_copy { 0.0 } else { open });
    }
    if is_readable(&[c"job", c"ready", c"retry", c"lease", c"ledger", c"paused_queue"]) {
        if let Some(queues) = store::queues(owner, reader, now) {
            push_queues(samples, queues, now, is_copy);
        }
    }
}

/// What waits in queues, and runs from them.
fn push_queues(samples: &mut Vec<Sample>, queues: BTreeMap<String, QueueState>, now: Instant, is_copy: bool) {
    let mut shown: BTreeMap<String, QueueState> = BTreeMap::new();
    for (number, (queue, state)) in queues.into_iter().enumerate() {
        let name = if number < MOST_QUEUES { queue } else { OTHER.to_owned() };
        let sum = shown.entry(name).or_default();
        sum.depth += state.depth;
        sum.running += state.running;
        // What is paused waits because somebody wants it to: in the others' sum it is no sign of trouble.
        let since = state.since.filter(|_| !is_copy && (number < MOST_QUEUES || !state.is_paused));
        sum.since = [sum.since, since].into_iter().flatten().min();
        sum.is_paused = state.is_paused && number < MOST_QUEUES;
    }
    for (queue, state) in shown {
        let waits = state.since.map_or(0, |since| now.as_micros().saturating_sub(since.as_micros()).max(0));
        let gauges = [
            (Family::QueueDepth, state.depth),
            (Family::QueueOldest, waits as f64 / 1e6),
            (Family::QueuePaused, f64::from(u8::from(state.is_paused))),
            (Family::Running, state.running),
        ];
        let gauge = |(family, value)| Sample::gauge(family, vec![("queue", queue.clone())], value);
        samples.extend(gauges.map(gauge));
    }
}

/// A time as monitoring systems have it.
fn unix_seconds(time: Instant) -> f64 {
    /// From 1970 to 2000, where a server's times begin.
    const EPOCH: f64 = 946_684_800.0;
    time.as_micros() as f64 / 1e6 + EPOCH
}
