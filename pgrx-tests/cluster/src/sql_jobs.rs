//! Jobs of kind `sql` as a test sees them: the processes that run them, and what the ledger says of their runs.

use crate::proc;
use crate::scheduler::{one, SOON};
use crate::tables::{none, PLACE};
use crate::wait::{wait_for, wait_until};
use postgres::Client;
use std::time::Duration;

/// The first dispatcher after a crash or a promotion has ended the runs of the former server by this long after it came.
pub const ENDED_AFTER_CRASH: Duration = Duration::from_secs(2);

/// The processes that run SQL jobs, of all databases, oldest first.
pub fn runners(client: &mut Client) -> Vec<i32> {
    proc::backends(client, "scheduler runner")
}

/// Defines a job of the client's role; `more` are further arguments of `define_job`, or empty.
pub fn define(client: &mut Client, job: &str, command: &str, more: &str) {
    let more = if more.is_empty() { String::new() } else { format!(", {more}") };
    let call = format!("select sched.define_job($1, 'sql', $2{more})");
    client.execute(&call, &[&job, &command]).unwrap_or_else(|error| panic!("{call}: {error}"));
}

/// Enqueues so many executions of a job; their ids.
pub fn enqueue(client: &mut Client, job: &str, count: i32) -> Vec<String> {
    let query = "select id::text from sched.enqueue_many($1, array_fill('{}'::jsonb, array[$2::int])) as id";
    let rows = client.query(query, &[&job, &count]).unwrap_or_else(|error| panic!("{job}: {error}"));
    rows.iter().map(|row| row.get(0)).collect()
}

/// Waits until `job` has so many runs in a `pg_sleep`; the ids of the executions and the processes.
pub fn sleeping(client: &mut Client, job: &str, count: usize) -> Vec<(String, i32)> {
    let query = "select r.id::text, r.pid from sched.running r join pg_stat_activity a on a.pid = r.pid
                  where r.job_name = $1 and a.wait_event = 'PgSleep' order by r.started_at";
    wait_until(&format!("{count} runs of {job} to be asleep"), SOON, || {
        let rows = client.query(query, &[&job]).unwrap();
        (rows.len() >= count).then(|| rows.iter().map(|row| (row.get(0), row.get(1))).collect())
    })
}

/// Waits until every execution has ended for good.
pub fn all_ended(client: &mut Client) {
    wait_for(client, &none(PLACE), SOON);
}

/// How an execution stands: status, and its error code or an empty text.
pub fn status(client: &mut Client, id: &str) -> (String, String) {
    let query = "select status, coalesce(error_code, '') from sched.execution where id = $1::text::uuid";
    let row = client.query_one(query, &[&id]).unwrap();
    (row.get(0), row.get(1))
}

/// Waits until an execution has ended for good; its status and its error code or an empty text.
pub fn ended(client: &mut Client, id: &str) -> (String, String) {
    let query = format!("select exists (select from sched.history where id = '{id}')");
    wait_for(client, &query, SOON);
    status(client, id)
}

/// The runs in the ledger whose process is not there: of a lease that can be seen, the process could be seen before.
pub fn runs_without_process(client: &mut Client) -> Vec<i32> {
    let running = "select pid from sched.running where pid is not null";
    let gone: Vec<i32> = client.query(running, &[]).unwrap().iter().map(|row| row.get(0)).collect();
    gone.into_iter().filter(|pid| !proc::is_alive(*pid)).collect()
}

/// That each acknowledged execution is there and has ended, and that exactly those that are SUCCESS have their row in `effect`
/// (execution_id, attempt), that of the attempt that the ledger names.
pub fn effects_are_those_of_the_ledger(client: &mut Client, jobs: &str, acknowledged: &[String]) {
    let query = "select count(*) from unnest($1::text[]) as id
                  where not exists (select from sched.history h where h.id = id::uuid)";
    let lost: i64 = client.query_one(query, &[&acknowledged]).unwrap().get(0);
    assert_eq!(lost, 0, "of {} acknowledged executions", acknowledged.len());
    let query = format!(
        "select coalesce(string_agg(format('%s %s %s attempt %s %s, but %s rows of attempts %s', e.id, e.job_name, e.status, e.attempt,
                                           e.error_code, coalesce(f.n, 0), f.attempts), e'\\n'), '')
           from (select * from sched.execution where job_name in ({jobs})) as e
           full join (select execution_id, count(*) as n, array_agg(attempt) as attempts from effect group by 1) as f
                on f.execution_id = e.id
          where e.id is null or (e.status = 'SUCCESS') <> (f.execution_id is not null)
             or f.attempts <> array[e.attempt]"
    );
    let wrong: String = one(client, &query);
    assert!(wrong.is_empty(), "ledger and effects differ:\n{wrong}");
}
