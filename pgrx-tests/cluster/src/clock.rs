//! A server whose wall clock the test sets, while it runs: `clock.c`, preloaded into all of its processes.

use crate::environment::{repository, run};
use std::fs;
use std::os::unix::fs::FileExt as _;
use std::path::Path;
use std::process::Command;

/// Builds what is preloaded, and the file that says by how much the clock is off, into the folder of a cluster that was not started yet.
pub fn prepare(folder: &Path) {
    let mut compile = Command::new("cc");
    compile.args(["-shared", "-fPIC", "-O2", "-Wall", "-o"]).arg(folder.join("clock.so"));
    compile.arg(repository().join("pgrx-tests/cluster/src/clock.c"));
    run(compile);
    fs::write(folder.join("offset"), 0_i64.to_ne_bytes()).unwrap();
}

/// Has the server's processes see that clock, where there is one.
pub fn preload(folder: &Path, command: &mut Command) {
    let library = folder.join("clock.so");
    if library.exists() {
        command.env("LD_PRELOAD", library).env("CLOCK_OFFSET", folder.join("offset"));
    }
}

/// Sets the clock of all processes of that cluster's server, at once, so many seconds ahead of the true time.
pub fn set(folder: &Path, seconds: i64) {
    let file = fs::OpenOptions::new().write(true).open(folder.join("offset"));
    let micros = (seconds * 1_000_000).to_ne_bytes();
    file.expect("a server with a clock to be set").write_all_at(&micros, 0).unwrap();
}
