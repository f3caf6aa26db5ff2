//! Takes a cluster down when its test is over, however it ends: a small process of its own reads from a pipe that only the test process
//! holds. When the pipe closes (dropped, panicked, killed with -9), it stops the server and removes the folder.

use crate::environment::{as_server_user, bin};
use std::os::unix::process::CommandExt;
use std::path::Path;
use std::process::{Child, Command, Stdio};

/// `$1` the cluster's folder, the rest a `pg_ctl stop`. A postmaster that does not even answer an immediate stop is killed.
const SCRIPT: &str = r#"
cluster=$1; shift
cat >/dev/null
if [ -f "$cluster/data/postmaster.pid" ]; then
    "$@" || kill -KILL "$(head -n 1 "$cluster/data/postmaster.pid")"
fi
rm -rf "$cluster"
"#;

/// Lives as long as the cluster does.
#[derive(Debug)]
pub struct Guard(Child);

impl Guard {
    /// From now on the folder, and a server in it, do not outlive this value or this process.
    pub fn new(cluster: &Path) -> Self {
        let mut stop = as_server_user(bin().join("pg_ctl"));
        stop.args(["stop", "-s", "-t", "20", "-m", "immediate", "-D"]).arg(cluster.join("data"));
        let mut shell = Command::new("sh");
        shell.args(["-c", SCRIPT, "cluster-guard"]).arg(cluster).arg(stop.get_program()).args(stop.get_args());
        // A group of its own: Ctrl-C in the terminal must reach the test, not the one that tidies up after it.
        shell.current_dir("/").env("LC_ALL", "C").process_group(0);
        shell.stdin(Stdio::piped()).stdout(Stdio::null()).stderr(Stdio::null());
        Self(shell.spawn().expect("cannot start sh"))
    }
}

impl Drop for Guard {
    fn drop(&mut self) {
        drop(self.0.stdin.take());
        // Nothing to do about an error: this may be running because of a panic.
        let _ = self.0.wait();
    }
}
