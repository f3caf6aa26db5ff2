//! Where the server is and who runs it: decided by `tools/env.sh`, only read here.

use std::env;
use std::path::PathBuf;
use std::process::{Command, Stdio};

/// The value of a variable that `tools/env.sh` sets.
fn variable(name: &str) -> String {
    env::var(name).unwrap_or_else(|_| {
        panic!("{name} is not set: run `make test-cluster`, or `. tools/env.sh` before `cargo test` (in bash)")
    })
}

/// The folder of the checkout.
pub fn repository() -> PathBuf {
    variable("SCHEDULER_ROOT").into()
}

/// The Python that has the drivers of the example worker.
pub fn python() -> PathBuf {
    variable("SCHEDULER_PYTHON").into()
}

/// What a step of `tools/setup.sh` put into the folder of builds.
pub fn built(path: &str) -> PathBuf {
    let path = PathBuf::from(variable("CARGO_TARGET_DIR")).join(path);
    assert!(
        path.exists(),
        "there is no {}: run `make setup`, or for what takes minutes `make test-long`",
        path.display()
    );
    path
}

/// The Python that has Celery.
pub fn celery_python() -> PathBuf {
    built("beat/bin/python3")
}

/// A program of Prometheus, or one of its exporters.
pub fn monitoring(program: &str) -> Command {
    Command::new(built("monitoring/usr/bin").join(program))
}

/// The folder with `postgres`, `pg_ctl`, `psql` … in which the extension is installed.
pub fn bin() -> PathBuf {
    let bin = PathBuf::from(variable("SCHEDULER_SERVER"));
    assert!(bin.join("postgres").exists(), "there is no server in {}: run `make setup`", bin.display());
    bin
}

/// The folder in which all clusters live; the user who runs the servers owns it.
pub fn clusters() -> PathBuf {
    variable("SCHEDULER_CLUSTERS").into()
}

/// A command that runs as the user who runs the servers, with nothing of ours in its environment that a server would notice.
pub fn as_server_user(program: impl Into<PathBuf>) -> Command {
    let run_as = variable("SCHEDULER_RUNAS");
    let mut command = if run_as.is_empty() {
        Command::new(program.into())
    } else {
        let mut command = Command::new("runuser");
        command.args(["-u", &run_as, "--"]).arg(program.into());
        command
    };
    // RUST_BACKTRACE would put source paths into the details of our errors.
    command.current_dir("/").env("LC_ALL", "C").env_remove("RUST_BACKTRACE").stdin(Stdio::null());
    command
}

/// Runs a command to its end and returns its output; panics with what it said when it fails.
pub fn run(mut command: Command) -> String {
    let output = command.output().unwrap_or_else(|error| panic!("cannot run {command:?}: {error}"));
    assert!(
        output.status.success(),
        "{command:?} failed ({})\n{}{}",
        output.status,
        String::from_utf8_lossy(&output.stdout),
        String::from_utf8_lossy(&output.stderr)
    );
    String::from_utf8_lossy(&output.stdout).into_owned()
}

/// Whether the server has the extensions of contrib: the build of PostgreSQL 16 that PyPI has lacks them.
pub fn has_contrib() -> bool {
    ["amcheck.so", "postgresql/amcheck.so"].iter().any(|file| bin().with_file_name("lib").join(file).exists())
}
