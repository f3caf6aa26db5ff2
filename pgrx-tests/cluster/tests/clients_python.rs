//! What the Python client does with bad handlers, hooks and payloads, and when it is told to stop: the tests are in `clients_python/`, each on a
//! server of its own.

use scheduler_cluster_tests::{conn, door, python, repository, Cluster};
use std::process::Command;

fn passes(file: &str, test: &str) {
    passes_on(&Cluster::new(), file, test);
}

fn passes_on(cluster: &Cluster, file: &str, test: &str) {
    cluster.execute("create role app login");
    cluster.execute("create role stranger login");
    let mut db = cluster.with_extension("postgres");
    db.batch_execute("select sched.grant_use('app')").unwrap();
    let mut app = cluster.connect_as("app", "postgres");
    app.batch_execute(
        "select sched.define_job('effect', queue => 'conformance', retry_backoff => '{1 hour}', stale_timeout => '4 s');
         select sched.define_job('long lease', queue => 'conformance', stale_timeout => '1 h')",
    )
    .unwrap();
    drop(app); // its connections are counted
    let mut program = Command::new(python());
    program
        .arg(repository().join(format!("pgrx-tests/cluster/tests/clients_python/{file}.py")))
        .arg(test)
        .arg(door(cluster).to_string());
    program.env("PYTHONPATH", repository().join("clients/python")).env("PYTHONDONTWRITEBYTECODE", "1");
    let output = cluster.client(program, "app", "postgres").output().expect("it can be started");
    assert!(output.status.success(), "{test}: {}", conn::text(&output));
}

#[test]
fn a_cancel_of_run_gives_back_and_leaves_nothing_behind() {
    passes("worker", "cancel_of_run");
}

#[test]
fn a_handler_that_says_cancelled_unasked_has_failed() {
    passes("handlers", "errors_of_their_own");
}

#[test]
fn a_batch_of_which_one_is_cancelled_is_given_back() {
    passes("worker", "a_batch_of_which_one_is_cancelled");
}

#[test]
fn a_second_interruption_costs_no_connection() {
    passes("worker", "a_second_interruption");
}

#[test]
fn a_session_that_turns_read_only_is_replaced() {
    passes("worker", "a_session_that_turns_read_only");
}

#[test]
fn an_error_that_cannot_be_written_ends_no_worker() {
    passes("handlers", "unwritable_errors");
}

#[test]
fn a_retry_is_by_the_servers_clock() {
    let cluster = Cluster::builder().with_a_clock_to_set().start();
    cluster.set_clock(86_400);
    passes_on(&cluster, "handlers", "a_retry_after_a_while");
}

#[test]
fn a_discard_is_for_good_whatever_its_words() {
    passes("handlers", "a_discard_without_words");
}

#[test]
fn a_payload_that_json_refuses_fails_its_own_run() {
    passes("handlers", "a_payload_that_json_refuses");
}

#[test]
fn a_handler_that_would_never_run_has_failed() {
    passes("handlers", "a_handler_that_would_never_run");
}

#[test]
fn a_hook_that_raises_ends_the_worker_which_gives_back() {
    passes("handlers", "a_hook_that_raises");
}

#[test]
fn a_strangers_notification_stops_no_run() {
    passes("worker", "a_strangers_notification");
}

#[test]
fn a_heartbeat_that_breaks_while_it_stops_is_replaced() {
    passes("worker", "a_heartbeat_that_breaks_while_it_stops");
}

#[test]
fn an_interruption_between_two_statements_comes_again() {
    passes("worker", "an_interruption_between_two_statements");
}

#[test]
fn a_handler_that_exits_ends_no_worker() {
    passes("handlers", "a_handler_that_exits");
}

#[test]
fn a_stop_before_run_is_heard() {
    passes("worker", "stop_before_run");
}

#[test]
fn who_drains_hears_that_there_is_no_server() {
    passes("worker", "no_server");
}

#[test]
fn the_command_line_keeps_what_the_worker_has() {
    passes("worker", "the_command_line");
}

#[test]
fn a_peer_that_is_gone_is_noticed() {
    passes("worker", "a_peer_that_is_gone");
}
