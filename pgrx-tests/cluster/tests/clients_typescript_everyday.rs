//! What the TypeScript client does for an application in words of its own language, beside what clients_library.rs states for all. The tests are in
//! `clients_typescript/`, each on a server of its own.

use scheduler_cluster_tests::{conn, repository, Cluster};
use std::process::Command;

fn passes(file: &str, test: &str) {
    let cluster = Cluster::new();
    cluster.execute("create role app login");
    cluster.execute("create role stranger login");
    let mut db = cluster.with_extension("postgres");
    db.batch_execute(
        "grant stranger to app; select sched.grant_use('app');
         create table effect (execution_id uuid, attempt int, what text); grant all on effect to app;
         create table conflicting (execution_id uuid); grant all on conflicting to app;
         create sequence tries; grant all on sequence tries to app; alter sequence tries owner to app;
         create function conflict() returns trigger language plpgsql as $$ begin
           if nextval('tries') < 3 then raise serialization_failure using message = 'a conflict'; end if; return null; end $$;
         create constraint trigger conflict after insert on conflicting deferrable initially deferred for each row execute function conflict()",
    )
    .unwrap();
    let mut app = cluster.connect_as("app", "postgres");
    app.batch_execute(
        "select sched.define_job(j, queue => 'work', retry_backoff => '{1 hour}')
           from unnest('{snooze, effect, finish, errors, on_dead, conflict, numbers, session, batch}'::text[]) as j;
         select sched.define_job('last', queue => 'work', max_attempts => 1)",
    )
    .unwrap();
    drop(app); // its connections are counted
    let mut node = Command::new("node");
    node.arg(repository().join(format!("pgrx-tests/cluster/tests/clients_typescript/{file}.js"))).arg(test);
    node.env("CLIENT", repository().join("clients/typescript"));
    let output = cluster.client(node, "app", "postgres").output().expect("it can be started");
    assert!(output.status.success(), "{test}: {}", conn::text(&output));
}

#[test]
fn a_snooze_may_have_an_instant() {
    passes("runs", "snooze");
}

#[test]
fn a_run_that_others_have_ended_is_lost() {
    passes("runs", "ended_elsewhere");
}

#[test]
fn finishing_ends_a_run_once() {
    passes("runs", "finish_mode");
}

#[test]
fn an_error_is_its_class_its_message_and_its_stack() {
    passes("runs", "errors");
}

#[test]
fn an_exception_in_on_dead_changes_no_failure() {
    passes("runs", "on_dead");
}

#[test]
fn a_conflict_calls_what_finishes_again() {
    passes("runs", "conflict_at_commit");
}

#[test]
fn in_mode_finish_broken_connections_cost_no_attempt() {
    passes("runs", "broken_connections");
}

#[test]
fn a_broken_connection_fails_its_run_at_once() {
    passes("runs", "a_broken_connection");
}

#[test]
fn numbers_keep_their_digits() {
    passes("words", "numbers");
}

#[test]
fn ids_of_any_scalar_type_are_text() {
    passes("words", "scalar_ids");
}

#[test]
fn unknown_options_are_errors() {
    passes("words", "unknown_options");
}

#[test]
fn named_statements_survive_a_reset() {
    passes("words", "named_statements");
}

#[test]
fn settings_of_the_connection_stay() {
    passes("words", "settings_of_the_connection");
}

#[test]
fn progress_keeps_digits() {
    passes("words", "progress");
}

#[test]
fn helpers_work_in_a_callers_transaction() {
    passes("words", "helpers");
}

#[test]
fn schedules_are_declared() {
    passes("words", "schedules");
}
