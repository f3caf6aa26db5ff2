//! Executions without a schedule, from several sessions at once: what names no plan time is one more, whoever else enqueues into its scope.

use scheduler_cluster_tests::scheduler::one;
use scheduler_cluster_tests::tables::*;
use scheduler_cluster_tests::{Client, Cluster};
use std::sync::Barrier;
use std::thread;

const SESSIONS: i64 = 4;
/// Each session's, one by one and in one call.
const EACH: i64 = 3_000;
const MANY: i64 = 200;

/// Enqueues into one scope in several transactions that are all open until each has said all that it has to say.
fn enqueue_side_by_side(cluster: &Cluster, job: &str) {
    let done = Barrier::new(usize::try_from(SESSIONS).unwrap());
    let clients: Vec<Client> = (0..SESSIONS).map(|_| cluster.connect()).collect();
    thread::scope(|scope| {
        for mut client in clients {
            let done = &done;
            scope.spawn(move || {
                // Who waited for another's open transaction would wait for ever: it ends when this one has come as far.
                client.batch_execute("set lock_timeout = '20s'; set statement_timeout = '300s'; begin").unwrap();
                let singles = format!("select count(distinct sched.enqueue('{job}', to_jsonb(i), scope_id => 'one')) from generate_series(1, {EACH}) as i");
                let many = format!(
                    "select count(distinct id) from sched.enqueue_many('{job}', array_fill('0'::jsonb, array[{MANY}]), scope_ids => array_fill('one'::text, array[{MANY}])) as id"
                );
                let said = [singles, many].map(|statement| client.query_one(&statement, &[]).map(|row| row.get::<_, i64>(0)));
                done.wait();
                assert_eq!(said.map(|said| said.unwrap()), [EACH, MANY]);
                client.batch_execute("commit").unwrap();
            });
        }
    });
}

#[test]
fn of_what_sessions_enqueue_into_one_scope_nothing_is_lost() {
    let cluster = Cluster::new();
    let mut db = cluster.with_extension("postgres");
    db.batch_execute(
        "select sched.define_job('rows', queue => 'rows'), sched.define_job('statements', queue => 'statements')",
    )
    .unwrap();
    for job in ["rows", "statements"] {
        if job == "statements" {
            // With a trigger on the ledger, the statement does it.
            db.batch_execute(
                "create trigger note before update on sched.ledger for each row execute function suppress_redundant_updates_trigger()",
            )
            .unwrap();
        }
        enqueue_side_by_side(&cluster, job);
        let row = db
            .query_one(
                &format!("select count(*), count(distinct plan_time), count(*) filter (where payload <> '0'), (select count(*) from {READY} r where queue = $1)
                   from sched.execution where job_name = $1"),
                &[&job],
            )
            .unwrap();
        let said: [i64; 4] = std::array::from_fn(|column| row.get(column));
        let all = SESSIONS * (EACH + MANY);
        assert_eq!(said, [all, all, SESSIONS * EACH, all], "{job}");
        // Each is claimed once.
        let claimed: i64 =
            one(&mut db, &format!("select count(distinct execution_id) from sched.claim('{job}', {})", all + 1));
        assert_eq!(claimed, all, "{job}");
    }
}
