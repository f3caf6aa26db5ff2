//! A batch of due timers fires: the executions and the timers that move on, together. Row by row where the tables are as they were
//! made, by the statement (timers_fire.sql, which says the same) where a superuser gave them more to do, or a run calls for more
//! than rows.

use std::collections::{HashMap, HashSet};
use std::ops::Range;
use std::rc::Rc;

use pgrx::datum::Uuid;
use pgrx::pg_sys::{self, Datum, Oid};
use pgrx::{IntoDatum, PgMemoryContexts};
use scheduler_core::lease::Status;
use scheduler_core::schedule::Next;
use scheduler_core::{Instant, Keyword};

use crate::heap::layouts::{self, awaited, job, ledger, ready, schedule, timer};
use crate::heap::{Condition, Index, KeyState, LatestSnapshot, Layout, Table, Workspace};
use crate::pg::convert::timestamp;
use crate::pg::error::{raise, Failure};
use crate::pg::record::Record;
use crate::pg::session::List;
use crate::pg::Session;
use crate::shmem::low_water_mark::{self, Position};
use crate::store::counted;
use crate::store::database_clock;
use crate::store::execution::ids;
use crate::store::fast_path::{self, readable, writable};
use crate::store::job::is_delivered_when_fired;
use crate::store::lease::key_lock::{self, LedgerKeys};
use crate::store::low_water_marks;
use crate::store::queue::delivery;
use crate::store::schedule::state::LockedTimer;

use crate::store::timer::new_timer::NewTimer;
use crate::store::timer::sql::{postpone, Columns};
use crate::{arguments, statement};

/// What a batch of due timers led to.
#[derive(Default)]
pub struct Fired {
    /// How many executions were inserted.
    pub count: i64,
    /// Queues in which something became claimable.
    pub queues: Vec<String>,
    /// The statement did some of it, which may have left changes of schedules to be applied.
    pub by_statement: bool,
}

/// Inserts the executions of a batch and moves its timers on. A plan time that the ledger already holds counts as fired. One
/// that somebody is just claiming, in a transaction that may stay open, is not waited for: its schedule comes again
/// `postponed_until`. Besides what it led to: which schedules move on with a run that is not this batch's own.
pub fn fire(session: &Session, timers: &[NewTimer], now: Instant, postponed_until: Instant) -> (Fired, HashSet<i64>) {
    let Split { moves, runs, postponed, shared, external } = split(timers);
    if !postponed.is_empty() {
        postpone(session, postponed, postponed_until);
    }
    let mut ids = ids::execution_ids(runs.len(), now).into_iter();
    let tables = if shared { None } else { fast_path::open_in(session, FireTables::open) };
    let (mut fired, left) = match &tables {
        Some(tables) => tables.fire(&moves, &runs, &mut ids, now),
        None => (Fired::default(), moves),
    };
    drop(tables);
    if !left.is_empty() {
        let more = by_statement(session, &left, &runs, &mut ids, now);
        fired.count += more.count;
        fired.queues.extend(more.queues);
        fired.by_statement = true;
    }
    if shared && usize::try_from(fired.count) != Ok(runs.len()) {
        raise(Failure::internal("a schedule was edited whose run another one of the batch counts on"));
    }
    (fired, external)
}

/// A timer that moves on.
struct Move<'t> {
    timer: &'t NewTimer,
    /// Which of the batch's runs are its own.
    runs: Range<usize>,
}

/// What `fire` does with its timers.
struct Split<'t> {
    /// To be written.
    moves: Vec<Move<'t>>,
    /// The runs that the ledger lacks.
    runs: Vec<Instant>,
    /// Somebody is just claiming a run of these schedules.
    postponed: Vec<i64>,
    /// A run is that of two schedules at once, and listed for the first of them.
    shared: bool,
    /// Schedules that move on with a run which the ledger has, or gets, by somebody else.
    external: HashSet<i64>,
}

fn split(timers: &[NewTimer]) -> Split<'_> {
    let ledger = key_lock::ledger();
    let mut keys = LedgerKeys::open(&ledger);
    let (mut moves, mut runs) = (Vec::with_capacity(timers.len()), Vec::with_capacity(timers.len()));
    let (mut postponed, mut shared, mut external) = (Vec::new(), false, HashSet::new());
    let mut listed = HashSet::with_capacity(timers.len());
    for timer in timers {
        let first = runs.len();
        let mut open = false;
        for run in timer.runs.iter().filter(|run| !timer.fired_before.contains(run)) {
            match keys.state(timer.key, timestamp(*run)) {
                KeyState::Free if listed.insert((*timer.key.as_bytes(), *run)) => runs.push(*run),
                KeyState::Free => shared = true,
                KeyState::Taken | KeyState::Changing => {}
                KeyState::Open => open = true,
            }
        }
        if open {
            runs.truncate(first);
            postponed.push(timer.schedule_id);
        } else {
            if runs.len() - first < timer.runs.len() {
                external.insert(timer.schedule_id);
            }
            moves.push(Move { timer, runs: first..runs.len() });
        }
    }
    Split { moves, runs, postponed, shared, external }
}

/// All of it in one statement.
fn by_statement(
    session: &Session,
    moves: &[Move],
    runs: &[Instant],
    ids: &mut impl Iterator<Item = Uuid>,
    now: Instant,
) -> Fired {
    statement!(
        TIMERS_FIRE = "timer/timers_fire"(
            INT8ARRAYOID,
            INT8ARRAYOID,
            TIMESTAMPTZARRAYOID,
            TIMESTAMPTZARRAYOID,
            BOOLARRAYOID,
            TIMESTAMPTZARRAYOID,
            TIMESTAMPTZARRAYOID,
            TIMESTAMPTZARRAYOID,
            TIMESTAMPTZARRAYOID,
            BOOLARRAYOID,
            TIMESTAMPTZARRAYOID,
            UUIDARRAYOID,
            BOOLARRAYOID,
            TIMESTAMPTZOID,
            INT4OID
        )
    );
    let mut columns = Columns::default();
    for Move { timer, runs: own } in moves {
        let own = &runs[own.clone()];
        columns.push(timer, true, own.first().copied());
        for run in own.iter().skip(1) {
            columns.push(timer, false, Some(*run));
        }
    }
    columns.run_id = columns.run.iter().map(|run| run.and_then(|_| ids.next())).collect();
    let rows = TIMERS_FIRE.run(
        session,
        arguments![
            List(columns.schedule_id),
            List(columns.version),
            List(columns.next_plan_time),
            List(columns.fire_at),
            List(columns.waiting),
            List(columns.buffered),
            List(columns.cursor),
            List(columns.backlog_until),
            List(columns.last_run),
            List(columns.moves),
            List(columns.run),
            List(columns.run_id),
            List(columns.awaited),
            timestamp(now),
            delivery::payload_limit()
        ],
    );
    delivery::deliver(&rows);
    counted::of_rows(&rows);
    let fired = rows.first().map_or(Fired::default(), |row| Fired {
        count: row.get_required("count"),
        queues: row.get("queues").unwrap_or_default(),
        by_statement: true,
    });
    low_water_marks::changed(&fired.queues);
    low_water_marks::added_changes(rows.first().and_then(|row| row.get("first_change")).into_iter());
    low_water_marks::added_timers(moves.iter().filter_map(|this| this.timer.fire_at()));
    fired
}

/// How many timers are written at once.
const AT_ONCE: usize = 100;

/// The tables that a fire writes and reads, opened, and what is committed now.
pub struct FireTables {
    latest: LatestSnapshot,
    timers: Table,
    ledger: Table,
    ready: Table,
    awaited: Table,
    schedules: Table,
    jobs: Table,
}

/// What a job gives its executions.
struct JobDefaults {
    job_name: Option<Datum>,
    queue: Option<Datum>,
    priority: Option<Datum>,
    max_attempts: Option<Datum>,
    allow_stale_reentry: Option<Datum>,
    owner: Option<Datum>,
    /// Its runs are done when they are dispatched: there is more to do than to insert them.
    delivered_when_fired: bool,
    /// The name of its queue,
    queue_name: String,
    /// the number behind the priority,
    priority_value: i32,
    /// where its first entry can be,
    order: Option<low_water_mark::Order>,
    /// who owns the job,
    owner_oid: Oid,
    /// and how many of its executions became claimable there.
    fired: usize,
}

type Row<const COLUMNS: usize> = [Option<Datum>; COLUMNS];

/// Rows to be inserted together.
#[derive(Default)]
struct Chunk {
    ledger: Vec<Row<{ layouts::LEDGER.columns.len() }>>,
    ready: Vec<Row<{ layouts::READY.columns.len() }>>,
    awaited: Vec<Row<{ layouts::AWAITED.columns.len() }>>,
    /// Where these will stand in their queues.
    marks: Vec<(low_water_mark::Order, Position)>,
}

impl FireTables {
    /// `None` where a table is not as expected, or a statement would not be allowed to do what is done here.
    pub fn open(schema: Oid) -> Option<FireTables> {
        let workspace = Rc::<Workspace>::default();
        let insert = |layout: &Layout| writable(schema, layout, &workspace, pg_sys::ACL_INSERT);
        let timers = writable(schema, &layouts::TIMER, &workspace, pg_sys::ACL_UPDATE)?;
        let (ledger, ready, awaited) =
            (insert(&layouts::LEDGER)?, insert(&layouts::READY)?, insert(&layouts::AWAITED)?);
        let (schedules, jobs) = (readable(schema, &layouts::SCHEDULE)?, readable(schema, &layouts::JOB)?);
        // After the waits for the tables' locks: an older look would find a table empty that was just written anew.
        Some(FireTables { latest: LatestSnapshot::take(), timers, ledger, ready, awaited, schedules, jobs })
    }

    /// Fires what is as usual; and the moves that are left to the statement.
    fn fire<'t>(
        &self,
        moves: &[Move<'t>],
        runs: &[Instant],
        ids: &mut impl Iterator<Item = Uuid>,
        now: Instant,
    ) -> (Fired, Vec<Move<'t>>) {
        let mut job_by_name = Index::open(&self.jobs, c"job_pkey", &self.latest);
        let mut known: HashMap<String, Option<JobDefaults>> = HashMap::new();
        let (pending, origin) = (Status::Pending.as_str().into_datum(), "schedule".into_datum());
        let (mut count, mut left) = (0, Vec::new());
        let mut chunk = Chunk::default();
        for table in [&self.timers, &self.ledger, &self.ready, &self.awaited] {
            table.prepare();
        }
        let mut lasting = PgMemoryContexts::For(PgMemoryContexts::CurrentMemoryContext.value());
        let mut fire_some = |moves: &[Move<'t>]| {
            let at = timestamp(database_clock::now()).into_datum();
            let mut moved = Vec::with_capacity(moves.len());
            for this in moves {
                let (timer, own) = (this.timer, &runs[this.runs.clone()]);
                // Nobody will report the end of a run that is not this batch's: the statement has the schedule go on.
                let goes_on = timer.next == Some(Next::Waiting) && !timer.runs.is_empty() && own.is_empty();
                let (Some(held), Some(tid)) = (timer.held, timer.schedule_tid) else {
                    left.push(Move { timer, runs: this.runs.clone() });
                    continue;
                };
                let found = self.schedules.fetch(tid, &self.latest)
                    && self.schedules.get_required::<i64>(schedule::SCHEDULE_ID) == timer.schedule_id
                    && self.schedules.get_required::<i64>(schedule::VERSION) == timer.version;
                if !found {
                    // It was edited: its change comes first.
                    continue;
                }
                let job_name: String = self.schedules.get_required(schedule::JOB_NAME);
                if !known.contains_key(&job_name) {
                    // SAFETY: the context that this call began in.
                    let defaults = unsafe { lasting.switch_to(|_| self.defaults(&mut job_by_name, &job_name)) };
                    known.insert(job_name.clone(), defaults);
                }
                let Some(Some(defaults)) = known.get_mut(&job_name) else { continue };
                if goes_on || defaults.delivered_when_fired {
                    left.push(Move { timer, runs: this.runs.clone() });
                    continue;
                }
                moved.push((timer, held));
                if own.is_empty() {
                    continue;
                }
                defaults.fired += own.len();
                let [scope_kind, scope_id, payload, schedule_name] =
                    [schedule::SCOPE_KIND, schedule::SCOPE_ID, schedule::PAYLOAD, schedule::SCHEDULE_NAME]
                        .map(|column| self.schedules.copy(column));
                let (key, schedule_id) = (timer.key.into_datum(), timer.schedule_id.into_datum());
                for (run, id) in own.iter().zip(&mut *ids) {
                    if let Some(order) = defaults.order {
                        chunk.marks.push((order, Position::new(defaults.priority_value, run.as_micros(), id)));
                    }
                    let (id, plan_time) = (id.into_datum(), timestamp(*run).into_datum());
                    let row = layouts::row([
                        (ledger::ID, id),
                        (ledger::KEY, key),
                        (ledger::JOB_NAME, defaults.job_name),
                        (ledger::SCOPE_KIND, scope_kind),
                        (ledger::SCOPE_ID, scope_id),
                        (ledger::PLAN_TIME, plan_time),
                        (ledger::QUEUE, defaults.queue),
                        (ledger::PRIORITY, defaults.priority),
                        (ledger::PAYLOAD, payload),
                        (ledger::STATUS, pending),
                        (ledger::ATTEMPT, 0.into_datum()),
                        (ledger::MAX_ATTEMPTS, defaults.max_attempts),
                        (ledger::ALLOW_STALE_REENTRY, defaults.allow_stale_reentry),
                        (ledger::AWAITED, timer.awaited.into_datum()),
                        (ledger::ORIGIN, origin),
                        (ledger::OWNER, defaults.owner),
                        (ledger::SCHEDULE_ID, schedule_id),
                        (ledger::SCHEDULE_NAME, schedule_name),
                        (ledger::CREATED_AT, at),
                        (ledger::UPDATED_AT, at),
                    ]);
                    chunk.ledger.push(row);
                    let row = layouts::row([
                        (ready::QUEUE, defaults.queue),
                        (ready::PRIORITY, defaults.priority),
                        (ready::PLAN_TIME, plan_time),
                        (ready::EXECUTION_ID, id),
                        (ready::OWNER, defaults.owner),
                    ]);
                    chunk.ready.push(row);
                    if timer.awaited {
                        chunk
                            .awaited
                            .push(layouts::row([(awaited::SCHEDULE_ID, schedule_id), (awaited::EXECUTION_ID, id)]));
                    }
                }
            }
            count += chunk.ledger.len();
            self.ledger.insert_all(&chunk.ledger);
            self.ready.insert_all(&chunk.ready);
            chunk.marks.drain(..).for_each(|(queue, first)| queue.added(first));
            self.awaited.insert_all(&chunk.awaited);
            chunk.ledger.clear();
            chunk.ready.clear();
            chunk.awaited.clear();
            for (timer, held) in &moved {
                if !self.timers.update_at(held.tid, &row_of(timer, *held, now)) {
                    raise(Failure::internal("a timer changed that was locked"));
                }
            }
            low_water_marks::added_timers(moved.iter().filter_map(|(timer, _)| timer.fire_at()));
        };
        let mut memory = PgMemoryContexts::new("scheduler fires");
        for moves in moves.chunks(AT_ONCE) {
            pgrx::check_for_interrupts!();
            // SAFETY: what these moves leave behind is in Rust's memory, in `lasting` or was prepared before.
            unsafe {
                memory.switch_to(|_| fire_some(moves));
                memory.reset();
            }
        }
        let mut queues = Vec::new();
        for (job_name, defaults) in known {
            let Some(JobDefaults { queue_name, owner_oid, fired, .. }) = defaults.filter(|it| it.fired > 0) else {
                continue;
            };
            counted::fired(&job_name, &queue_name, owner_oid, fired as u64);
            queues.push(queue_name);
        }
        (Fired { count: i64::try_from(count).unwrap_or(i64::MAX), queues, by_statement: false }, left)
    }

    /// What a job gives its executions; `None` where it does not exist.
    fn defaults(&self, job_by_name: &mut Index, job_name: &str) -> Option<JobDefaults> {
        let jobs = &self.jobs;
        if !job_by_name.find(&[Condition::equal(pg_sys::F_TEXTEQ, job_name)]) {
            return None;
        }
        let queue_name: String = jobs.get_required(job::READY_QUEUE);
        Some(JobDefaults {
            job_name: jobs.copy(job::JOB_NAME),
            queue: jobs.copy(job::READY_QUEUE),
            priority: jobs.copy(job::PRIORITY),
            max_attempts: jobs.copy(job::MAX_ATTEMPTS),
            allow_stale_reentry: jobs.copy(job::ALLOW_STALE_REENTRY),
            owner: jobs.copy(job::OWNER),
            delivered_when_fired: is_delivered_when_fired(&jobs.get_required::<String>(job::KIND)),
            order: low_water_mark::Order::of(self.ready.oid(), &queue_name),
            queue_name,
            priority_value: jobs.get_required(job::PRIORITY),
            owner_oid: jobs.get_required(job::OWNER),
            fired: 0,
        })
    }
}

/// The row of a timer that moves on.
fn row_of(this: &NewTimer, held: LockedTimer, now: Instant) -> Row<{ layouts::TIMER.columns.len() }> {
    let time = |time: Option<Instant>| time.map(timestamp).into_datum();
    let last_run = this.runs.last().copied();
    layouts::row([
        (timer::SCHEDULE_ID, this.schedule_id.into_datum()),
        (timer::VERSION, this.version.into_datum()),
        (timer::NEXT_PLAN_TIME, time(this.next_plan_time())),
        (timer::FIRE_AT, time(this.fire_at())),
        (timer::WAITING, (this.next == Some(Next::Waiting)).into_datum()),
        (timer::BUFFERED_PLAN, time(this.progress.buffered)),
        (timer::CURSOR_AT, time(this.progress.cursor)),
        (timer::BACKLOG_UNTIL, time(this.progress.backlog_until)),
        (timer::LAST_PLAN_TIME, last_run.map(timestamp).or(held.last_plan_time).into_datum()),
        (timer::LAST_FIRED_AT, last_run.map(|_| timestamp(now)).or(held.last_fired_at).into_datum()),
        (timer::ERROR_COUNT, 0.into_datum()),
        (timer::LAST_ERROR, None),
        (timer::PARKED, false.into_datum()),
        (timer::TRACKS_RUNS, held.tracks_runs.into_datum()),
        // (No owner is a number as well.)
        (timer::OWNER, Some(Datum::from(this.owner.to_u32()))),
    ])
}
