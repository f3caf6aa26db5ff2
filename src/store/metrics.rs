//! What our tables say of how much there is: counted where it is little, else estimated from some pages of a table, so that an answer takes
//! milliseconds however much there is.

use std::collections::{BTreeMap, HashMap};

use pgrx::datum::{TimestampWithTimeZone, Uuid};
use pgrx::pg_sys::Oid;
use scheduler_core::Instant;

use crate::heap::layouts::{self, lease, ready, timer};
use crate::heap::{LatestSnapshot, Layout, PageSample, Table};
use crate::pg::convert::timestamp;
use crate::pg::record::Record;
use crate::pg::{role, Owner, Session};
use crate::store::queue::elsewhere_queue::is_elsewhere_queue;
use crate::store::queue::user_queue::user_queue;
use crate::store::timer::first_times;
use crate::{arguments, statement};

/// What more than this is counted as, of what is counted by an index.
pub const MOST_COUNTED: i64 = 1000;
/// How many queues and jobs are looked at.
const MOST_NAMES: i32 = 1000;
/// How many entries of queues are counted, all queues together, and of each one at least.
const ENTRIES: i64 = 3000;
const ENTRIES_OF_QUEUE: i64 = 20;
/// Of how many priorities of a queue the first entry is looked at.
const MOST_PRIORITIES: usize = 8;
/// How many due retries are counted, of all queues together.
const MOST_RETRIES: i64 = 10_000;
/// How many pages of a table are read: no more than these, of what is long.
const PAGES: u32 = 96;
/// The same of leases: most of their pages are empty, and they are few where all is well.
const LEASE_PAGES: u32 = 512;

/// Who asks, and how far he may know what others have.
#[derive(Clone, Copy)]
pub struct Reader {
    /// The role.
    pub role: Oid,
    /// It may know everything.
    pub reads_all: bool,
}

impl Reader {
    /// Whether it may know of what this role owns. `asked` remembers the last answer.
    fn may_know(self, owner: Oid, asked: &mut Option<(Oid, bool)>) -> bool {
        if self.reads_all {
            return true;
        }
        if asked.is_none_or(|(known, _)| known != owner) {
            *asked = Some((owner, role::may_act_for(self.role, owner)));
        }
        asked.is_some_and(|(_, may)| may)
    }
}

/// What timers call for.
pub struct Timers {
    /// How many are due, up to `MOST_COUNTED`.
    pub due: i64,
    /// When the next is to fire.
    pub next: Option<Instant>,
}

/// What is due, and what comes next.
pub fn timers(session: &Session, now: Instant) -> Timers {
    statement!(TIMERS = "metrics/timers"(TIMESTAMPTZOID, INT8OID, TIMESTAMPTZOID));
    let none_before = timestamp(first_times::before_timers(session, now));
    let rows = TIMERS.run(session, arguments![timestamp(now), MOST_COUNTED, none_before]);
    rows.first().map_or(Timers { due: 0, next: None }, |row| Timers {
        due: row.get_required("due"),
        next: row.get_saturated("next"),
    })
}

/// How many schedules have a next fire; `None` where the table is not as it was made.
pub fn armed(owner: &Owner) -> Option<f64> {
    let counted = sample(owner, &layouts::TIMER, PAGES, |row| {
        row.get::<TimestampWithTimeZone>(timer::FIRE_AT).is_some().then_some(())
    })?;
    Some(counted.rows.len() as f64 * counted.scale)
}

/// What was found on some pages of a table.
struct Sampled<T> {
    rows: Vec<T>,
    /// How many rows of the table each stands for.
    scale: f64,
    /// It is all of them.
    is_whole: bool,
}

/// What `look` makes of the rows on some pages of a table; `None` where the table is not as it was made.
fn sample<T>(
    owner: &Owner,
    layout: &Layout,
    most: u32,
    mut look: impl FnMut(&Table) -> Option<T>,
) -> Option<Sampled<T>> {
    let table = Table::open(owner.schema, layout)?;
    let latest = LatestSnapshot::take();
    let mut pages = PageSample::open(&table, most, &latest);
    let mut rows = Vec::new();
    while pages.next() {
        rows.extend(look(&table));
    }
    Some(Sampled { rows, scale: pages.scale(), is_whole: pages.is_whole() })
}

/// What waits in a queue and runs from it.
#[derive(Clone, Copy, Default)]
pub struct QueueState {
    /// How many can be claimed.
    pub depth: f64,
    /// Since when the first of each priority can: the earliest.
    pub since: Option<Instant>,
    /// How many run.
    pub running: f64,
    /// Nobody may claim from it.
    pub is_paused: bool,
}

impl QueueState {
    fn waits_since(&mut self, since: Option<Instant>) {
        self.since = [self.since, since].into_iter().flatten().min();
    }
}

/// The queues that `reader` may know of, by the names that users know.
pub fn queues(owner: &Owner, reader: Reader, now: Instant) -> Option<BTreeMap<String, QueueState>> {
    let session = owner.session();
    let mut queues: BTreeMap<String, QueueState> = known_queues(session, reader);
    let Depths { mut found, is_exact } = depths(owner, reader)?;
    // A sample finds what is long. What is short beside it is found by the index.
    if !is_exact {
        for head in heads(session, reader, found.len()) {
            let waiting = found.entry(head.queue).or_default();
            if head.seen < head.looked_at {
                waiting.count = head.own as f64;
            } else {
                waiting.count = waiting.count.max(head.own as f64);
            }
            waiting.firsts.extend(head.firsts.into_iter().map(|id| (0, 0, id)));
        }
    }
    let firsts: Vec<Uuid> = found.values().flat_map(|waiting| &waiting.firsts).map(|(_, _, id)| *id).collect();
    for (queue, waiting) in found.into_iter().filter(|(queue, _)| !is_elsewhere_queue(queue)) {
        queues.entry(user_queue(&queue).to_owned()).or_default().depth += waiting.count;
    }
    for (queue, since) in since(session, firsts) {
        queues.entry(user_queue(&queue).to_owned()).or_default().waits_since(since);
    }
    for (queue, count, since) in due_retries(session, reader, now) {
        if is_elsewhere_queue(&queue) {
            continue;
        }
        let state = queues.entry(user_queue(&queue).to_owned()).or_default();
        state.depth += count as f64;
        state.waits_since(since);
    }
    for (queue, running) in running(owner, reader)? {
        queues.entry(queue).or_default().running += running;
    }
    for queue in paused(session, queues.keys().cloned().collect()) {
        queues.entry(queue).or_default().is_paused = true;
    }
    Some(queues)
}

fn known_queues(session: &Session, reader: Reader) -> BTreeMap<String, QueueState> {
    statement!(QUEUES = "metrics/queues"(INT4OID, OIDOID, BOOLOID));
    let rows = QUEUES.run(session, arguments![MOST_NAMES, reader.role, reader.reads_all]);
    rows.iter().map(|row| (row.get_required("queue"), QueueState::default())).collect()
}

/// Which of these queues are paused.
fn paused(session: &Session, queues: Vec<String>) -> Vec<String> {
    statement!(PAUSED = "metrics/paused"(TEXTARRAYOID));
    PAUSED.run(session, arguments![queues]).iter().map(|row| row.get_required("queue")).collect()
}

/// What of a queue's entries is the reader's.
#[derive(Default)]
struct Waiting {
    count: f64,
    /// The first of each priority, as far as it was seen: priority, plan time, execution.
    firsts: Vec<(i64, i64, Uuid)>,
}

impl Waiting {
    /// One more, with its id if somebody is to claim it: what a dropped role has left waits for nobody.
    fn saw(&mut self, priority: i64, plan_time: i64, id: Option<Uuid>) {
        self.count += 1.0;
        let Some(id) = id else { return };
        if let Some(first) = self.firsts.iter_mut().find(|first| first.0 == priority) {
            if plan_time < first.1 {
                *first = (priority, plan_time, id);
            }
        } else if self.firsts.len() < MOST_PRIORITIES {
            self.firsts.push((priority, plan_time, id));
        }
    }
}

/// Queues by the names that they have in the table, and whether all entries were counted.
struct Depths {
    found: BTreeMap<String, Waiting>,
    is_exact: bool,
}

fn depths(owner: &Owner, reader: Reader) -> Option<Depths> {
    let (mut found, mut asked) = (BTreeMap::<String, Waiting>::new(), None);
    let mut roles = HashMap::<u32, bool>::new();
    let sampled = sample(owner, &layouts::READY, PAGES, |row| {
        let owner: Oid = row.get_required(ready::OWNER);
        if reader.may_know(owner, &mut asked) {
            let exists = *roles.entry(owner.to_u32()).or_insert_with(|| role::exists(owner));
            let queue: &str = row.get_required(ready::QUEUE);
            if !found.contains_key(queue) {
                found.insert(queue.to_owned(), Waiting::default());
            }
            let priority = i64::from(row.get_required::<i32>(ready::PRIORITY));
            let plan_time = i64::from(row.get_required::<TimestampWithTimeZone>(ready::PLAN_TIME));
            if let Some(waiting) = found.get_mut(queue) {
                waiting.saw(priority, plan_time, exists.then(|| row.get_required(ready::EXECUTION_ID)));
            }
        }
        None::<()>
    })?;
    found.values_mut().for_each(|waiting| waiting.count = (waiting.count * sampled.scale).round());
    Some(Depths { found, is_exact: sampled.is_whole })
}

/// The first entries of a queue.
struct Head {
    queue: String,
    looked_at: i64,
    seen: i64,
    own: i64,
    firsts: Vec<Uuid>,
}

/// Of each queue in its order as many entries as there is time for, where so many queues are known.
fn heads(session: &Session, reader: Reader, queues: usize) -> Vec<Head> {
    statement!(HEADS = "metrics/heads"(INT4OID, INT8OID, OIDOID, BOOLOID, INT4OID));
    let share = ENTRIES / i64::try_from(queues.max(1)).unwrap_or(ENTRIES);
    let looked_at = share.clamp(ENTRIES_OF_QUEUE, MOST_COUNTED);
    let rows =
        HEADS.run(session, arguments![MOST_NAMES, looked_at, reader.role, reader.reads_all, MOST_PRIORITIES as i32]);
    let head = |row: crate::pg::session::Row| Head {
        queue: row.get_required("queue"),
        looked_at,
        seen: row.get_required("seen"),
        own: row.get_required("own"),
        firsts: row.get("firsts").unwrap_or_default(),
    };
    rows.iter().map(head).collect()
}

/// Since when the first of these executions of each queue can be claimed.
fn since(session: &Session, executions: Vec<Uuid>) -> Vec<(String, Option<Instant>)> {
    statement!(SINCE = "metrics/since"(UUIDARRAYOID));
    let rows = SINCE.run(session, arguments![executions]);
    rows.iter().map(|row| (row.get_required("queue"), row.get_saturated("since"))).collect()
}

/// What is due in `sched.retry` and no dispatcher has moved yet: a claim moves it itself. How much, and since when.
fn due_retries(session: &Session, reader: Reader, now: Instant) -> Vec<(String, i64, Option<Instant>)> {
    statement!(DUE_RETRIES = "metrics/due_retries"(TIMESTAMPTZOID, INT8OID, OIDOID, BOOLOID));
    let rows = DUE_RETRIES.run(session, arguments![timestamp(now), MOST_RETRIES, reader.role, reader.reads_all]);
    rows.iter().map(|row| (row.get_required("queue"), row.get_required("count"), row.get_saturated("since"))).collect()
}

/// How many executions of each queue run.
fn running(owner: &Owner, reader: Reader) -> Option<BTreeMap<String, f64>> {
    let mut asked = None;
    let leases = sample(owner, &layouts::LEASE, LEASE_PAGES, |row| {
        let may = reader.may_know(row.get_required(lease::OWNER), &mut asked);
        may.then(|| row.get_required::<Uuid>(lease::EXECUTION_ID))
    })?;
    if leases.rows.is_empty() {
        return Some(BTreeMap::new());
    }
    // Of many, some that are spread over all of them stand for the others.
    let step = leases.rows.len().div_ceil(MOST_COUNTED as usize);
    let picked: Vec<Uuid> = leases.rows.iter().copied().step_by(step).collect();
    let scale = leases.scale * leases.rows.len() as f64 / picked.len() as f64;
    statement!(RUNNING = "metrics/running"(UUIDARRAYOID));
    let rows = RUNNING.run(owner.session(), arguments![picked]);
    let mut counts = BTreeMap::<String, f64>::new();
    for row in rows.iter() {
        let queue: String = row.get_required("queue");
        *counts.entry(user_queue(&queue).to_owned()).or_default() +=
            (row.get_required::<i64>("count") as f64 * scale).round();
    }
    Some(counts)
}
