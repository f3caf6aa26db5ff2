//! What the Python client does with bad handlers, hooks and payloads, and when it is told to stop: the tests are in `clients_python/`, each on a
//! server of its own.

use scheduler_cluster_tests::{conn, door, python, repository, Cluster};
use std::process::Command;

fn passes(file: &str, test: &str) {
    passes_on(&Cluster::new(), file, test);
}

fn passes_on(cluster: &Cluster, file: &str, test: &str) {
    passes_with(cluster, file, test, &[&door(cluster).to_string()]);
}

/// The test gets these arguments after its name.
pub fn passes_with(cluster: &Cluster, file: &str, test: &str, arguments: &[&str]) {
    cluster.execute("create role app login");
    cluster.execute("create role stranger login");
    let mut db = cluster.with_extension("postgres");
    db.batch_execute("select sched.grant_use('app'); grant create on schema public to app").unwrap();
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
        .args(arguments);
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

#[test]
fn two_workers_in_one_loop_both_stop() {
    passes("process", "two_workers_in_one_loop");
}

#[test]
fn workers_of_other_threads_give_back() {
    passes("process", "workers_of_other_threads");
}

#[test]
fn a_host_keeps_its_own_signals() {
    passes("process", "a_host_with_its_own_signals");
}

#[test]
fn a_handler_that_never_ends_is_given_back() {
    passes("process", "a_handler_that_never_ends");
}

#[test]
fn the_handlers_of_signals_are_put_back() {
    passes("process", "the_handlers_of_before");
}

#[test]
fn a_worker_has_several_queues() {
    passes("process", "several_queues");
}

#[test]
fn a_function_makes_the_connections() {
    passes("connections", "made_by_a_function");
}

#[test]
fn a_broken_connection_costs_no_attempt_where_a_handler_has_none() {
    passes("connections", "broken_while_a_handler_has_none");
}

#[test]
fn a_terminated_connection_costs_no_attempt() {
    passes("connections", "terminated_by_an_administrator");
}

#[test]
fn finishing_waits_for_a_server_that_is_away() {
    passes("outages", "when_finishing_begins");
}

#[test]
fn a_connection_that_breaks_while_finishing_costs_no_attempt() {
    passes("outages", "while_finishing");
}

#[test]
fn what_is_given_back_waits_for_a_server_that_is_away() {
    passes("outages", "when_a_run_is_given_back");
}

#[test]
fn a_claim_whose_answer_got_lost_is_given_back() {
    passes("outages", "when_a_claim_was_committed");
}

#[test]
fn a_cancel_after_the_commit_loses_no_claim() {
    passes("outages", "when_a_cancel_hits_what_follows_the_commit");
}

#[test]
fn runs_of_a_program_that_ends_around_its_worker_are_given_back() {
    passes("outages", "when_the_program_ends_around_the_worker");
}

#[test]
fn a_drain_of_a_connection_that_breaks_raises() {
    passes("outages", "when_the_connection_of_a_drain_breaks");
}

#[test]
fn a_handler_that_ends_its_server_process_uses_up_its_attempt() {
    passes("outages", "when_the_handler_has_ended_its_server_process");
}

#[test]
fn a_hook_for_the_dead_that_raises_changes_no_failure() {
    passes("connections", "a_hook_for_the_dead_that_raises");
}

#[test]
fn a_lease_that_was_lost_keeps_nothing() {
    passes("connections", "a_lease_that_was_lost");
}

#[test]
fn numbers_keep_their_digits() {
    passes("connections", "numbers");
}

#[test]
fn finishing_ends_a_run_once() {
    passes("connections", "finishing_in_other_ways");
}

#[test]
fn progress_waits_for_no_lock() {
    passes("connections", "progress_of_a_locked_lease");
}

#[test]
fn a_tests_drain_counts_and_raises() {
    passes("helpers", "of_what_is_committed");
}

#[test]
fn a_tests_drain_is_rolled_back() {
    passes("helpers", "within_a_transaction");
}

#[test]
fn a_tests_drain_of_asyncio_is_rolled_back() {
    passes("helpers", "within_a_transaction_of_asyncio");
}

#[test]
fn a_test_sees_what_waits() {
    passes("helpers", "what_waits");
}

#[test]
fn pytest_has_a_fixture() {
    passes("helpers", "with_pytest");
}

#[test]
fn django_has_a_mixin() {
    passes("helpers", "with_django");
}

#[test]
fn a_result_that_is_too_large_fails_its_run() {
    passes("connections", "a_result_that_is_too_large");
}

#[test]
fn a_handler_that_commits_has_failed() {
    passes("connections", "a_handler_that_commits");
}

#[test]
fn a_handler_has_savepoints() {
    passes("connections", "a_savepoint_of_the_handler");
}

#[test]
fn options_of_the_connection_string_stay() {
    passes("connections", "options_of_the_connection_string");
}

#[test]
fn prepared_statements_of_another_session_fail_no_run() {
    passes("connections", "prepared_statements_of_another_session");
}

#[test]
fn a_stop_takes_less_than_dockers_ten_seconds() {
    passes("process", "what_a_stop_takes");
}

#[test]
fn a_conflict_while_finishing_calls_the_handler_again() {
    passes("connections", "a_conflict_while_finishing");
}

#[test]
fn a_connection_that_is_cut_is_replaced() {
    passes("connections", "cut_without_a_word");
}

#[test]
fn runs_in_a_row_share_nothing() {
    passes("connections", "several_in_a_row");
}
