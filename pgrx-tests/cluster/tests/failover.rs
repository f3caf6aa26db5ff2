//! Failovers by Patroni: `pgrx-tests/failover/failover.py` starts three nodes and kills them, with the configuration of the guide.

use scheduler_cluster_tests::{bin, clusters, repository};
use std::fs;
use std::process::Command;

#[test]
#[ignore = "ten minutes"]
fn long_failover_by_patroni_loses_and_doubles_nothing() {
    let tools = repository().join("target/failover");
    assert!(tools.join("usr/bin/etcd").exists(), "Patroni is missing: run tools/setup.sh failover");
    let folder = clusters().join(format!("failover-{}", std::process::id()));
    let mut nodes: Command = scheduler_cluster_tests::as_server_user(tools.join("bin/python3"));
    let made = scheduler_cluster_tests::run({
        let mut mkdir = scheduler_cluster_tests::as_server_user("mkdir");
        mkdir.arg(&folder);
        mkdir
    });
    assert_eq!(made, "");
    nodes.arg(repository().join("pgrx-tests/failover/failover.py"));
    nodes.arg(repository().join("docs/operations/high-availability.md")).args([&folder, &bin()]);
    nodes.arg(tools.join("usr/bin/etcd"));
    let status = nodes.status().expect("python can be started");
    let logs = fs::read_dir(&folder)
        .into_iter()
        .flatten()
        .flatten()
        .filter(|file| file.path().extension().is_some_and(|end| end == "log"));
    if !status.success() {
        for log in logs {
            let text = fs::read_to_string(log.path()).unwrap_or_default();
            let lines: Vec<&str> = text.lines().collect();
            println!("---- {} ----\n{}", log.path().display(), lines[lines.len().saturating_sub(30)..].join("\n"));
        }
    }
    let mut remove = scheduler_cluster_tests::as_server_user("rm");
    remove.arg("-rf").arg(&folder);
    scheduler_cluster_tests::run(remove);
    assert!(status.success(), "see above");
}
