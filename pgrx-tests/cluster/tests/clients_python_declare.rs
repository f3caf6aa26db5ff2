//! How the Python library declares schedules, and has a test do what time would bring: the tests are in `clients_python/declare.py` and
//! `clients_python/test_mode.py`, each on a server of its own.

use crate::clients_python::passes_with;
use scheduler_cluster_tests::Cluster;

fn passes(file: &str, test: &str) {
    passes_with(&Cluster::new(), file, test, &[]);
}

#[test]
fn an_application_declares_its_schedules() {
    passes("declare", "by_the_functions");
}

#[test]
fn a_bad_declaration_is_refused() {
    passes("declare", "what_is_refused");
}

#[test]
fn a_worker_declares_at_its_start() {
    passes("declare", "at_the_start_of_a_worker");
}

#[test]
fn several_processes_declare_at_once() {
    passes("declare", "several_processes_at_once");
}

#[test]
fn a_worker_that_cannot_declare_ends() {
    passes("declare", "a_worker_that_cannot_declare");
}

#[test]
fn a_declaration_outlives_a_broken_connection() {
    passes("declare", "a_connection_that_breaks");
}

#[test]
fn a_tests_drain_fires_what_is_due() {
    passes("test_mode", "what_three_days_bring");
}

#[test]
fn a_tests_drain_fires_what_is_due_in_its_transaction() {
    passes("test_mode", "within_a_transaction");
}
