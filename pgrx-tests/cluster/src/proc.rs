//! Processes: those of a server, to find them, signal them, see them gone; and the client programs that a test starts.

use crate::wait::wait_until;
use postgres::Client;
use rustix::process::{kill_process, Pid};
use std::fs;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, ExitStatus};
use std::thread;
use std::time::Duration;

pub use rustix::process::Signal;

/// The processes that `pg_stat_activity` shows with this `backend_type`, oldest first.
pub fn backends(client: &mut Client, backend_type: &str) -> Vec<i32> {
    let query = "select pid from pg_stat_activity where backend_type = $1 order by backend_start";
    let rows = client.query(query, &[&backend_type]).unwrap_or_else(|error| panic!("{query}: {error}"));
    rows.iter().map(|row| row.get(0)).collect()
}

/// Sends a signal; a process that is gone already is fine.
pub fn kill(pid: i32, signal: Signal) {
    let pid = Pid::from_raw(pid).expect("a process id is not 0");
    match kill_process(pid, signal) {
        Ok(()) | Err(rustix::io::Errno::SRCH) => {}
        Err(error) => panic!("cannot send {signal:?} to process {pid:?}: {error}"),
    }
}

/// False when it has ended, also when nobody has collected its exit code yet.
pub fn is_alive(pid: i32) -> bool {
    stat(pid).is_some_and(|(state, _)| state != "Z" && state != "X")
}

/// Whether it waits for something: nobody has woken it who has not been heard yet, and it does not just wait for its turn on a busy machine.
pub fn sleeps(pid: i32) -> bool {
    stat(pid).is_some_and(|(state, _)| state == "S")
}

/// Stops a worker (SIGSTOP) while it waits for its latch: in the middle of something it could have a lock that the whole server needs.
pub fn freeze(pid: i32) {
    wait_until("it to wait for its latch", Duration::from_secs(40), || {
        // Where the kernel does not say for what a process sleeps, that it sleeps is all there is to know.
        let place = fs::read_to_string(format!("/proc/{pid}/wchan")).unwrap_or_default();
        (sleeps(pid) && (place.contains("epoll") || place.trim_matches('0').is_empty())).then_some(())
    });
    kill(pid, Signal::STOP);
}

/// Whether a SIGSTOP has reached it.
pub fn is_stopped(pid: i32) -> bool {
    stat(pid).is_some_and(|(state, _)| state == "T")
}

/// The processes that this one has started.
pub fn children(parent: i32) -> Vec<i32> {
    let entries = fs::read_dir("/proc").expect("cannot read /proc");
    let pids = entries.filter_map(|entry| entry.ok()?.file_name().to_str()?.parse().ok());
    pids.filter(|pid| stat(*pid).is_some_and(|(_, its_parent)| its_parent == parent)).collect()
}

/// The CPU time of a process so far, in hundredths of a second.
pub fn cpu_ticks(pid: i32) -> u64 {
    let stat = fs::read_to_string(format!("/proc/{pid}/stat")).expect("the process is there");
    let fields: Vec<&str> = stat.rsplit(')').next().unwrap_or_default().split_whitespace().collect();
    [11, 12].map(|field| fields[field].parse::<u64>().expect("a number of ticks")).iter().sum()
}

/// State and parent from `/proc/PID/stat`; the name before them may hold spaces and parentheses.
fn stat(pid: i32) -> Option<(String, i32)> {
    let text = fs::read_to_string(format!("/proc/{pid}/stat")).ok()?;
    let (_, rest) = text.rsplit_once(") ")?;
    let mut fields = rest.split(' ');
    Some((fields.next()?.into(), fields.next()?.parse().ok()?))
}

/// A client program that runs beside the test, and not longer.
#[derive(Debug)]
pub struct Program {
    child: Child,
    output: PathBuf,
}

impl Program {
    /// Starts it; what it prints goes to the file `output`.
    pub fn start(mut command: Command, output: &Path) -> Self {
        let file = fs::File::create(output).unwrap_or_else(|error| panic!("{}: {error}", output.display()));
        command.stdout(file.try_clone().expect("a file can be opened twice")).stderr(file);
        let child = command.spawn().unwrap_or_else(|error| panic!("cannot start {command:?}: {error}"));
        Self { child, output: output.into() }
    }

    /// Its exit status, once it has ended.
    pub fn ended(&mut self) -> Option<ExitStatus> {
        self.child.try_wait().expect("a child can be waited for")
    }

    /// The process id, to send it a signal.
    pub fn pid(&self) -> i32 {
        i32::try_from(self.child.id()).expect("process ids fit")
    }

    /// What it has printed so far.
    pub fn printed(&self) -> String {
        fs::read_to_string(&self.output).unwrap_or_default()
    }
}

impl Drop for Program {
    fn drop(&mut self) {
        // Nothing to do about errors: it has most likely ended by itself.
        let _ = self.child.kill();
        let _ = self.child.wait();
        if thread::panicking() {
            println!("---- what the program printed ----\n{}", self.printed());
        }
    }
}
