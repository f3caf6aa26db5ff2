//! `initdb` takes a second, a copy of its result a tenth: it runs once for each server version, and every cluster is a copy.

use crate::environment::{as_server_user, bin, clusters, run};
use std::path::PathBuf;
use std::process;
use std::sync::OnceLock;

/// The folder of a data directory that was never started.
pub fn template() -> &'static PathBuf {
    static TEMPLATE: OnceLock<PathBuf> = OnceLock::new();
    TEMPLATE.get_or_init(|| {
        let version = run(version_command()).replace(|c: char| !c.is_ascii_alphanumeric() && c != '.', "-");
        let finished = clusters().join(format!("template-{}", version.trim_matches('-')));
        if !finished.exists() {
            let mine = finished.with_extension(process::id().to_string());
            let mut initdb = initdb();
            initdb.arg(&mine);
            run(initdb);
            // Another test process may have been faster: then its copy is as good.
            let mut rename = as_server_user("mv");
            rename.arg("--no-target-directory").args([&mine, &finished]);
            if !rename.output().is_ok_and(|output| output.status.success()) {
                assert!(finished.exists(), "cannot create {}", finished.display());
                let mut remove = as_server_user("rm");
                remove.arg("-rf").arg(&mine);
                run(remove);
            }
        }
        finished
    })
}

/// An `initdb` as every cluster had it; its data directory is still to be named.
pub fn initdb() -> process::Command {
    let mut initdb = as_server_user(bin().join("initdb"));
    initdb.args(["--username=postgres", "--auth=trust", "--encoding=UTF8", "--locale=C", "--no-sync"]);
    initdb
}

fn version_command() -> process::Command {
    let mut command = as_server_user(bin().join("postgres"));
    command.arg("--version");
    command
}
