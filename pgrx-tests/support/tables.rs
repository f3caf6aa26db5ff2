//! The one place in the tests that knows the tables of executions and timers. All of it is SQL text, used by the tests in the server (as
//! `crate::test_support::tables`) and by those with servers of their own (as `scheduler_cluster_tests::tables`). Specs and SQL files name the
//! words in braces, and [`fill`] puts the texts there. No text has braces itself, because isolationtester ends a step there.
//!
//! A test reads relations: `format!("select count(*) from {READY} r where queue = 'mail'")`. Each needs an alias. They cannot be written
//! to: a statement that stands for an intent does that (`put_ready`, `LEASES_LAPSE`). The names of tables (`READY_TABLE`) serve locks, DDL
//! and VACUUM. The tests know nothing more: another layout of the tables changes this file alone.

// Each of the two crates uses some of the words.
#![allow(dead_code, missing_docs)]

/// Columns `route`, `queue` and `runs_as`, from the name of the queue in which the row waits.
macro_rules! routed {
    () => {
        "CASE WHEN octet_length(queue) <= 57 THEN 'worker' WHEN starts_with(queue, 'executions that the server runs itself') THEN 'server'
              WHEN starts_with(queue, 'executions that a dispatcher delivers') THEN 'dispatcher' ELSE 'elsewhere' END AS route,
         CASE WHEN octet_length(queue) > 57 THEN substr(queue, 73) ELSE queue END AS queue,
         CASE WHEN octet_length(queue) > 57 AND starts_with(queue, 'executions that') THEN substr(queue, 62, 10)::bigint::oid END AS runs_as"
    };
}

/// Executions that can be claimed: `execution_id`, `route`, `queue`, `runs_as`, `priority`, `plan_time`, `owner`. The queue is the user's own.
/// The route is `worker`, `server` (runners), `dispatcher` or `elsewhere`. Where the server or a dispatcher serves it, `runs_as` is the oid
/// of the role for which that happens.
pub const READY: &str = concat!("(SELECT execution_id, priority, plan_time, owner, ", routed!(), " FROM sched.ready)");

/// Executions that wait for a time: `due_at`, and the columns of [`READY`].
pub const DELAYED: &str =
    concat!("(SELECT execution_id, priority, plan_time, owner, retry_at AS due_at, ", routed!(), " FROM sched.retry)");

/// Both, as executions with their `state`, `ready` or `delayed`: `execution_id`, `owner`.
pub const PENDING: &str =
    "(SELECT execution_id, owner, 'ready' AS state FROM sched.ready UNION ALL SELECT execution_id, owner, 'delayed' FROM sched.retry)";

/// Where each unfinished execution is: `execution_id`, `place` (`ready`, `delayed` or `leased`). One that is in two places has two rows.
pub const PLACE: &str = "(SELECT execution_id, 'ready' AS place FROM sched.ready
    UNION ALL SELECT execution_id, 'delayed' FROM sched.retry UNION ALL SELECT execution_id, 'leased' FROM sched.lease)";

/// Leases: `execution_id`, `lease_token`, `fence`, `attempt`, `owner`, `started_at`, `heartbeat_at`, `stale_after`, `sweep_at` (a lower bound of
/// it, which the sweeper searches by), `stale_timeout`, `runner_id`, `progress`, `cancel_requested`, `run_until`, and `route`: `server` for
/// those of runners, whose process is `pid`.
pub const LEASE: &str = "(SELECT execution_id, lease_token, fence, attempt, owner, started_at, heartbeat_at, stale_after, sweep_at, stale_timeout,
    runner_id, progress, cancel_requested, own_transactions, run_until, CASE WHEN sweep_at = 'infinity' THEN 'server' ELSE 'worker' END AS route,
    CASE WHEN sweep_at = 'infinity' AND octet_length(runner_id) <= 13 THEN substring(runner_id, '^sql/([0-9]+)$')::integer END AS pid FROM sched.lease)";

/// Timers, one for each schedule that a dispatcher has seen.
pub const TIMER: &str = "(SELECT schedule_id, version, next_plan_time, fire_at, waiting, buffered_plan, cursor_at, backlog_until, last_plan_time,
    last_fired_at, error_count, last_error, parked, tracks_runs, owner FROM sched.timer)";

/// The ledger's executions as `execution_id` with `route`, the user's `queue` and `runs_as`: where each goes when it is pending.
pub const ROUTE: &str = concat!("(SELECT id AS execution_id, ", routed!(), " FROM sched.ledger)");

/// Names for LOCK, VACUUM, ALTER, triggers and statistics. Some may be one table. Those of leases and timers can be updated and emptied as
/// well, by the columns that [`LEASE`] and [`TIMER`] show.
pub const READY_TABLE: &str = "sched.ready";
pub const DELAYED_TABLE: &str = "sched.retry";
pub const LEASE_TABLE: &str = "sched.lease";
pub const TIMER_TABLE: &str = "sched.timer";
/// All tables of executions, which a dump may leave out.
pub const EXECUTION_TABLES: [&str; 5] = ["sched.ledger", READY_TABLE, DELAYED_TABLE, LEASE_TABLE, "sched.awaited"];
/// Those whose rows have an `owner`, with the column that says of which execution they are.
pub const OWNED_TABLES: [(&str, &str); 4] = [
    (LEASE_TABLE, "execution_id"),
    (READY_TABLE, "execution_id"),
    (DELAYED_TABLE, "execution_id"),
    ("sched.ledger", "id"),
];
/// The indexes (in the schema `sched`) by which claims, the sweeper, the promotion of due retries and ticks search.
pub const READY_INDEX: &str = "ready_order";
pub const DELAYED_INDEX: &str = "retry_pkey";
pub const LEASE_INDEX: &str = "lease_sweep_at";
pub const TIMER_INDEX: &str = "timer_fire_at";

/// Makes the ledger empty, and all tables of executions with it.
pub const NO_EXECUTIONS: &str =
    "TRUNCATE sched.ledger, sched.ready, sched.retry, sched.lease, sched.awaited, sched.unique_scope";

/// Makes each timer again from its schedule, in one transaction.
pub const REBUILT_TIMERS: &str = "begin; truncate sched.timer; select sched.rebuild(); commit";

/// To be called after writing to these tables past the functions, which know where their first entries can be.
pub const HEADS_ARE_NEW: &str =
    "SELECT sched_internal.table_is_new(t) FROM unnest(ARRAY['sched.ready', 'sched.retry', 'sched.lease', 'sched.timer']::regclass[]) AS t";

/// The same for [`TIMER_TABLE`] alone.
pub const TIMERS_ARE_NEW: &str = "SELECT sched_internal.table_is_new('sched.timer'::regclass)";

/// Whether there is no row in one of these relations.
pub fn none(relation: &str) -> String {
    format!("select not exists (select from {relation} w)")
}

/// How many rows one of these relations has.
pub fn count_of(relation: &str) -> String {
    format!("select count(*) from {relation} w")
}

/// Whether an execution of this job can be claimed.
pub fn some_ready_of(job: &str) -> String {
    format!(
        "select exists (select from {READY} r join sched.ledger e on e.id = r.execution_id where e.job_name = '{job}')"
    )
}

/// Where an execution is, given as an SQL expression: `ready`, `delayed` or `leased`; NULL when it has ended. An expression.
pub fn where_is(id: &str) -> String {
    format!("(SELECT string_agg(place, '+' ORDER BY place) FROM {PLACE} p WHERE p.execution_id = {id})")
}

/// Where each row of the ledger `e` is, if the entry says of it what the ledger does: `ready`, `delayed` or `leased`. An expression.
pub const TRUE_PLACE: &str = "(SELECT string_agg(place, '+' ORDER BY place) FROM (
    SELECT 'ready' AS place FROM sched.ready r WHERE r.execution_id = e.id AND (r.queue, r.priority, r.plan_time, r.owner) = (e.queue, e.priority, e.plan_time, e.owner)
    UNION ALL
    SELECT 'delayed' FROM sched.retry r
     WHERE r.execution_id = e.id AND (r.retry_at, r.queue, r.priority, r.plan_time, r.owner) = (e.next_retry_at, e.queue, e.priority, e.plan_time, e.owner)
    UNION ALL
    SELECT 'leased' FROM sched.lease l WHERE l.execution_id = e.id AND l.owner = e.owner) p)";

/// Calls for each lease.
pub const FINISH_ALL: &str = "SELECT sched.finish_success(execution_id, lease_token) FROM sched.lease";
pub const FAIL_ALL: &str = "SELECT sched.finish_failure(execution_id, lease_token) FROM sched.lease";
pub const BEAT_ALL: &str = "SELECT sched.heartbeat(execution_id, lease_token) FROM sched.lease";

/// Rows that a superuser, a broken dump or a test adds. `which` is a condition on the ledger `e`.
pub fn put_ready(which: &str) -> String {
    format!(
        "INSERT INTO sched.ready (execution_id, queue, priority, plan_time, owner)
         SELECT e.id, e.queue, e.priority, e.plan_time, e.owner FROM sched.ledger e WHERE {which}"
    )
}

/// The same with the time until which they wait, an expression.
pub fn put_delayed(due_at: &str, which: &str) -> String {
    format!(
        "INSERT INTO sched.retry (retry_at, execution_id, queue, priority, plan_time, owner)
         SELECT {due_at}, e.id, e.queue, e.priority, e.plan_time, e.owner FROM sched.ledger e WHERE {which}"
    )
}

/// The lease of a run of the server's own, by the process `pid`.
pub fn put_runner_lease(pid: &str, which: &str) -> String {
    format!(
        "INSERT INTO sched.lease (execution_id, lease_token, fence, attempt, owner, started_at, heartbeat_at, stale_after, sweep_at, stale_timeout, runner_id)
         SELECT e.id, gen_random_uuid(), nextval('sched.fence'), 1, e.owner, now(), now(), 'infinity', 'infinity', '5 min', 'sql/{pid}'
           FROM sched.ledger e WHERE {which}"
    )
}

/// The lease of an execution that a worker named `old` runs. `token` and `attempt` are texts; `stale_after` is an expression.
pub fn put_worker_lease(token: &str, attempt: i32, stale_after: &str, cancel_requested: bool, which: &str) -> String {
    format!(
        "INSERT INTO sched.lease (execution_id, lease_token, fence, attempt, owner, started_at, heartbeat_at, stale_after, sweep_at, stale_timeout, runner_id,
                                  cancel_requested)
         SELECT e.id, '{token}', 0, {attempt}, e.owner, clock_timestamp() - interval '3 minutes', clock_timestamp() - interval '2 minutes',
                {stale_after}, {stale_after}, '5 minutes', 'old', {cancel_requested} FROM sched.ledger e WHERE {which}"
    )
}

/// Entries whose times no clock has, of one execution of the schedule `%s`: it waits and is leased.
pub const POISONED_ENTRIES: &str = "insert into sched.retry (retry_at, execution_id, queue, priority, plan_time, owner)
    select 'infinity', id, queue, priority, plan_time, owner from sched.ledger where schedule_id = %s limit 1;
    insert into sched.lease (execution_id, lease_token, fence, attempt, owner, started_at, heartbeat_at, stale_after, sweep_at, stale_timeout, runner_id)
    select id, id, 1, 1, owner, 'infinity', '-infinity', 'infinity', 'infinity', '1 hour', 'nobody' from sched.ledger where schedule_id = %s limit 1";

/// What can be claimed has this plan time, as a superuser writes it.
pub fn ready_planned_at(plan_time: &str) -> String {
    format!("UPDATE sched.ready SET plan_time = '{plan_time}'")
}

/// What waits for a time gets company: an entry due a second before it, of this priority, whose execution is not in the ledger.
pub fn put_orphan_delayed(priority: &str) -> String {
    format!(
        "INSERT INTO sched.retry (retry_at, execution_id, queue, priority, plan_time, owner)
         SELECT retry_at - interval '1 second', '00000000-0000-7000-8000-000000000001', queue, {priority}, plan_time, owner FROM sched.retry"
    )
}

/// The role that runs what waits of an SQL job has another number, as after a restore.
pub fn roles_renumbered(job: &str) -> Vec<String> {
    [("ledger", "id"), ("ready", "execution_id"), ("retry", "execution_id")]
        .map(|(table, id)| {
            format!(
                "UPDATE sched.{table} SET queue = overlay(queue placing '4294967295' from 62)
                  WHERE octet_length(queue) > 57 AND {id} IN (SELECT id FROM sched.ledger WHERE job_name = '{job}')"
            )
        })
        .to_vec()
}

/// Rows that a superuser or a test takes away; `which` is a condition on the columns of the relation.
pub fn remove_ready(which: &str) -> String {
    format!("DELETE FROM sched.ready WHERE execution_id IN (SELECT execution_id FROM {READY} r WHERE {which})")
}

pub fn remove_delayed(which: &str) -> String {
    format!("DELETE FROM sched.retry WHERE execution_id IN (SELECT execution_id FROM {DELAYED} d WHERE {which})")
}

pub fn remove_leases(which: &str) -> String {
    format!("DELETE FROM sched.lease WHERE execution_id IN (SELECT execution_id FROM {LEASE} l WHERE {which})")
}

/// Each execution that waits for a time has waited long enough.
pub const DELAYS_ARE_OVER: &str =
    "WITH due AS (UPDATE sched.retry SET retry_at = now() - interval '1 s' RETURNING execution_id, retry_at)
    UPDATE sched.ledger SET next_retry_at = retry_at FROM due WHERE id = execution_id";

/// Each execution that waits for a time has waited that much longer; `by` is an interval.
pub fn delays_pass(by: &str) -> String {
    format!("UPDATE sched.retry SET retry_at = retry_at - interval '{by}'")
}

/// Each lease has run out, a second ago.
pub const LEASES_LAPSE: &str =
    "UPDATE sched.lease SET stale_after = now() - interval '1 s', sweep_at = now() - interval '1 s'";

/// Each timer fires that much earlier, as if the schedule were that much behind; `by` is an interval.
pub fn timers_pass(by: &str) -> String {
    format!(
        "UPDATE sched.timer SET next_plan_time = next_plan_time - interval '{by}', fire_at = fire_at - interval '{by}', cursor_at = cursor_at - interval '{by}';
         SELECT sched_internal.table_is_new('sched.timer'::regclass)"
    )
}

/// Every time in these tables moves into the past by an SQL expression. Versions of timers rise, as those of schedules do that move as well.
pub fn times_pass(by: &str, versions: u32) -> Vec<String> {
    vec![
        format!(
            "UPDATE sched.timer SET version = version + {versions}, next_plan_time = next_plan_time - {by}, fire_at = fire_at - {by},
                    buffered_plan = buffered_plan - {by}, cursor_at = cursor_at - {by}, backlog_until = backlog_until - {by},
                    last_plan_time = last_plan_time - {by}, last_fired_at = last_fired_at - {by}"
        ),
        format!("UPDATE sched.ready SET plan_time = plan_time - {by}"),
        format!("UPDATE sched.retry SET retry_at = retry_at - {by}, plan_time = plan_time - {by}"),
        format!(
            "UPDATE sched.lease SET started_at = started_at - {by}, heartbeat_at = heartbeat_at - {by},
                    stale_after = stale_after - {by}, sweep_at = sweep_at - {by}, run_until = run_until - {by}"
        ),
    ]
}

/// All tables, and what their rows are ordered by.
pub const KEYS: [(&str, &str); 28] = [
    ("alert", "alert_id"),
    ("alert_state", "schedule_id"),
    ("alert_watch", "watch_id"),
    ("awaited", "schedule_id, execution_id"),
    ("cancel_request", "request_id"),
    ("crontab_secret", "only_row"),
    ("enqueue_grant", "job_name, role"),
    ("home", "system_identifier"),
    ("imported", "schedule_id"),
    ("job", "job_name"),
    ("ledger", "id"),
    ("lease", "execution_id"),
    ("paused_queue", "queue"),
    ("queue_grant", "queue, role"),
    ("ready", "execution_id"),
    ("reported_fire", "schedule_id, plan_time"),
    ("retry", "execution_id"),
    ("schedule", "schedule_id"),
    ("schedule_change", "change_id"),
    ("schedule_definition", "definition_id"),
    ("schedule_dropped", "schedule_id"),
    ("schedule_group", "group_name"),
    ("shard", "buckets"),
    ("skip", "schedule_id, defined_at, plan_from"),
    ("test_clock", "only_row"),
    ("timer", "schedule_id"),
    ("timer_state", "schedule_id"),
    ("unique_scope", "key"),
];

/// A text in which words of this file stand in braces: `{READY}`, and calls with one argument: `{put_ready e.job_name = 'j'}`.
pub fn fill(text: &str) -> String {
    let words = [
        ("{READY}", READY),
        ("{DELAYED}", DELAYED),
        ("{PENDING}", PENDING),
        ("{PLACE}", PLACE),
        ("{LEASE}", LEASE),
        ("{TIMER}", TIMER),
        ("{READY_TABLE}", READY_TABLE),
        ("{DELAYED_TABLE}", DELAYED_TABLE),
        ("{LEASE_TABLE}", LEASE_TABLE),
        ("{TIMER_TABLE}", TIMER_TABLE),
        ("{NO_EXECUTIONS}", NO_EXECUTIONS),
        ("{HEADS_ARE_NEW}", HEADS_ARE_NEW),
        ("{POISONED_ENTRIES}", POISONED_ENTRIES),
    ];
    let text = words.iter().fold(text.to_owned(), |text, (word, sql)| text.replace(word, sql));
    let text = filled(&text, "{put_ready ", put_ready);
    filled(&text, "{times_pass ", |by| times_pass(by, 2).join(";\n"))
}

/// The text with what `call` makes of the argument in place of each call that begins so.
fn filled(text: &str, opening: &str, call: impl Fn(&str) -> String) -> String {
    let mut parts = text.split(opening);
    let mut filled = parts.next().unwrap_or_default().to_owned();
    for part in parts {
        let (argument, rest) = part.split_once('}').unwrap_or((part, ""));
        filled.push_str(&call(argument));
        filled.push_str(rest);
    }
    filled
}
