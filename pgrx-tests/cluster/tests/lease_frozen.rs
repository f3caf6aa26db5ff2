//! A holder that was frozen for longer than its lease, and stolen from, cannot commit what it did once it thaws.

use scheduler_cluster_tests::proc::{self, Signal};
use scheduler_cluster_tests::scheduler::{one, SOON};
use scheduler_cluster_tests::{wait_for, Client, Cluster};
use std::io::{BufRead as _, BufReader, Write as _};
use std::process::{Child, ChildStdin, Stdio};
use std::thread;

const STALE: &str = "300 milliseconds";

/// A psql that claims one plan and then stops in the middle of its work.
struct Holder {
    psql: Child,
    input: ChildStdin,
    number: usize,
}

impl Holder {
    /// Odd ones write their result before they freeze, in a transaction that stays open.
    fn freeze(cluster: &Cluster, number: usize) -> Holder {
        let mut psql = cluster.psql("postgres", "postgres");
        psql.args(["-qAt", "-v", "ON_ERROR_STOP=1", "-v", "VERBOSITY=sqlstate"]);
        psql.stdin(Stdio::piped()).stdout(Stdio::piped()).stderr(Stdio::piped());
        let mut psql = psql.spawn().unwrap();
        let mut input = psql.stdin.take().unwrap();
        let claim = format!(
            "select execution_id as id, lease_token as token from sched.try_claim('frozen', '2026-01-01', 'n', '{number}',
                    stale_timeout => '{STALE}', max_attempts => 3) \\gset\n"
        );
        let write = format!("begin; insert into result values ({number}, 'the frozen one');\n");
        let before = if number % 2 == 1 { write.as_str() } else { "" };
        writeln!(input, "{claim}{before}\\echo ready").unwrap();
        let mut lines = BufReader::new(psql.stdout.as_mut().unwrap()).lines();
        assert_eq!(lines.next().unwrap().unwrap(), "ready");
        proc::kill(i32::try_from(psql.id()).unwrap(), Signal::STOP);
        // It finds the rest when it thaws.
        let after = if number % 2 == 1 { "" } else { write.as_str() };
        write!(input, "{after}select sched.finish_success(:'id', :'token');\ncommit;\n").unwrap();
        Holder { psql, input, number }
    }

    /// Its exit code and what it complained about.
    fn thaw(self) -> (usize, Option<i32>, String) {
        let Holder { psql, input, number } = self;
        drop(input);
        proc::kill(i32::try_from(psql.id()).unwrap(), Signal::CONT);
        let output = psql.wait_with_output().unwrap();
        (number, output.status.code(), String::from_utf8_lossy(&output.stderr).into_owned())
    }
}

#[test]
fn a_holder_that_was_stolen_from_cannot_finish() {
    let cluster = Cluster::new();
    let mut db = cluster.with_extension("postgres");
    db.batch_execute("create table result (n int, author text); create table stolen (n int, id uuid, token uuid)")
        .unwrap();
    for round in 0_usize..4 {
        let holders: Vec<_> = thread::scope(|scope| {
            let freeze = |lane: usize| {
                let cluster = &cluster;
                scope.spawn(move || {
                    (0..5).map(|n| Holder::freeze(cluster, round * 25 + lane * 5 + n)).collect::<Vec<_>>()
                })
            };
            let lanes: Vec<_> = (0..5).map(freeze).collect();
            lanes.into_iter().flat_map(|lane| lane.join().unwrap()).collect()
        });
        let last: String = one(&mut db, "select clock_timestamp()::text");
        wait_for(&mut db, &format!("select clock_timestamp() > '{last}'::timestamptz + 3 * interval '{STALE}'"), SOON);
        for holder in &holders {
            let steal = format!(
                "with stolen as (insert into stolen
                                 select {n}, execution_id, lease_token
                                   from sched.try_claim('frozen', '2026-01-01', 'n', '{n}', stale_timeout => '1 hour')
                                  where outcome = 'stole' returning n)
                 select count(*) = 1 from stolen",
                n = holder.number
            );
            wait_for(&mut db, &steal, SOON);
        }
        // Of half of them the thief is done when the holder thaws, the others it still runs.
        let finish = |db: &mut Client, condition: &str| {
            db.batch_execute(&format!(
                "insert into result select n, 'the thief' from stolen where {condition};
                 select sched.finish_success(id, token) from stolen where {condition};
                 delete from stolen where {condition}"
            ))
            .unwrap();
        };
        finish(&mut db, "n % 4 < 2");
        for holder in holders {
            let (number, code, complaint) = holder.thaw();
            assert_eq!(code, Some(3), "holder {number}: {complaint}");
            assert!(complaint.contains("55000"), "holder {number}: {complaint}");
        }
        finish(&mut db, "true");
    }
    assert_eq!(one::<i64>(&mut db, "select count(*) from result"), 100);
    assert_eq!(one::<i64>(&mut db, "select count(*) from result where author <> 'the thief'"), 0);
    assert_eq!(
        one::<i64>(&mut db, "select count(*) from sched.execution where status = 'SUCCESS' and attempt = 2"),
        100
    );
}
