//! One throw-away cluster: a copy of the template, reached through a Unix socket in a private folder, never through TCP.

use crate::clock;
use crate::environment::{as_server_user, bin, clusters, has_contrib, run};
use crate::guard::Guard;
use crate::proc::{self, Signal};
use crate::template::{initdb, template};
use crate::wait::wait_until;
use std::env;
use std::fmt::Write as _;
use std::fs;
use std::io::Write as _;
use std::path::{Path, PathBuf};
use std::process::{self, Command};
use std::sync::atomic::{AtomicU32, Ordering};
use std::thread;
use std::time::Duration;

/// For what the system or a server does at once, on a machine that is not busy.
const PATIENCE: Duration = Duration::from_secs(60);

/// How a server is asked to stop.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Shutdown {
    /// Breaks connections, writes a checkpoint.
    Fast,
    /// Every process quits at once; the next start recovers.
    Immediate,
}

/// Settings of a cluster that is still to be started.
#[derive(Clone, Debug)]
pub struct Builder {
    settings: Vec<(String, String)>,
    sets_clock: bool,
    own_server: Option<fn(&Path)>,
}

impl Default for Builder {
    /// The extension preloaded and nothing synced to disk: the contents survive any process, not the machine.
    fn default() -> Self {
        let settings = [
            ("listen_addresses", ""),
            ("shared_preload_libraries", "scheduler"),
            ("shared_buffers", "16MB"),
            ("max_connections", "100"),
            ("max_worker_processes", "16"),
            ("fsync", "off"),
            ("log_line_prefix", "%m %b[%p] %d "),
            ("log_min_messages", "info"),
            // Whoever has waited for a lock may be woken once more, for nothing, after this long: less than what `rest` looks at.
            ("deadlock_timeout", "50ms"),
        ];
        let mut settings: Vec<(String, String)> = settings.map(|(name, value)| (name.into(), value.into())).into();
        // Every suite can be run by statements as well.
        if env::var("SCHEDULER_FAST_PATH").is_ok_and(|value| value == "off") {
            settings.push(("sched.fast_path".into(), "off".into()));
        }
        Self { settings, sets_clock: false, own_server: None }
    }
}

impl Builder {
    /// A line in `postgresql.conf`; a later one wins.
    #[must_use]
    pub fn set(mut self, name: &str, value: &str) -> Self {
        self.settings.push((name.into(), value.into()));
        self
    }

    /// Writes are synced as on a real server, for tests about what a crash may lose.
    #[must_use]
    pub fn durable(self) -> Self {
        self.set("fsync", "on")
    }

    /// A server whose clock the test sets ([`Cluster::set_clock`]).
    #[must_use]
    pub fn with_a_clock_to_set(self) -> Self {
        Self { sets_clock: true, ..self }
    }

    /// A server with files of its own, for a test that installs something: a copy that this function changes, by its `pg_config`.
    #[must_use]
    pub fn with_files_of_its_own(self, change: fn(&Path)) -> Self {
        Self { own_server: Some(change), ..self }
    }

    /// Leases, claims and fires go row by row whatever `SCHEDULER_FAST_PATH` says, for tests of how they do that.
    #[must_use]
    pub fn row_by_row(self) -> Self {
        self.set("sched.fast_path", "on")
    }

    /// A server that does not preload the extension, as before an administrator has done so.
    #[must_use]
    pub fn without_preload(self) -> Self {
        self.set("shared_preload_libraries", "")
    }

    /// Starts the server and returns when it accepts connections.
    pub fn start(self) -> Cluster {
        let mut copy = as_server_user("cp");
        copy.arg("-a").arg(template());
        self.start_from(copy)
    }

    /// The same with an `initdb` of its own: the copies of the template all have one system identifier, which real servers never share.
    pub fn start_other(self) -> Cluster {
        self.start_from(initdb())
    }

    /// Starts a streaming standby of a running server and returns when it answers questions.
    pub fn start_standby_of(self, primary: &Cluster) -> Cluster {
        let mut backup = as_server_user(bin().join("pg_basebackup"));
        backup.args(["--write-recovery-conf", "--checkpoint=fast", "--no-sync", "--username=postgres", "--host"]);
        backup.arg(primary.folder()).arg("--pgdata");
        self.start_from(backup)
    }

    /// `make` creates the data directory that it is given as its last argument.
    fn start_from(self, mut make: Command) -> Cluster {
        static NEXT: AtomicU32 = AtomicU32::new(1);
        // Short: the socket's path may have 107 bytes.
        let name = format!("t{}-{}", process::id(), NEXT.fetch_add(1, Ordering::Relaxed));
        let folder = clusters().join(name);
        let guard = Guard::new(&folder);
        let mut mkdir = as_server_user("mkdir");
        mkdir.args(["-m", "700"]).arg(&folder);
        run(mkdir);
        make.arg(folder.join("data"));
        run(make);
        if self.sets_clock {
            clock::prepare(&folder);
        }

        let bin = self.own_server.map_or_else(bin, |change| {
            let own = copy_server(&folder.join("server"));
            change(&own.join("pg_config"));
            own
        });

        let mut lines = format!("unix_socket_directories = '{}'\n", folder.display());
        for (name, value) in &self.settings {
            writeln!(lines, "{name} = '{}'", value.replace('\'', "''")).unwrap();
        }
        let cluster = Cluster { folder, bin, lines, _guard: guard };
        cluster.configure();
        cluster.start();
        cluster
    }
}

/// A running (or stopped) server of one test.
#[derive(Debug)]
pub struct Cluster {
    folder: PathBuf,
    /// The programs that start and stop it.
    bin: PathBuf,
    /// Its own lines of postgresql.conf.
    lines: String,
    _guard: Guard,
}

impl Cluster {
    /// A server with the extension preloaded.
    pub fn new() -> Self {
        Builder::default().start()
    }

    /// A cluster with settings of its own.
    pub fn builder() -> Builder {
        Builder::default()
    }

    /// Sets the clock of all processes of the server, at once, so many seconds ahead of the true time.
    pub fn set_clock(&self, seconds: i64) {
        clock::set(&self.folder, seconds);
    }

    /// The folder of the socket, which is also that of the log.
    pub fn folder(&self) -> &Path {
        &self.folder
    }

    /// The data directory.
    pub fn data(&self) -> PathBuf {
        self.folder.join("data")
    }

    /// What the server has logged since it was created.
    pub fn log(&self) -> String {
        fs::read(self.folder.join("log")).map(|bytes| String::from_utf8_lossy(&bytes).into_owned()).unwrap_or_default()
    }

    /// Starts a server that was stopped or crashed.
    pub fn start(&self) {
        self.start_with("");
    }

    /// The same with options for `postgres`, until the next start.
    pub fn start_with(&self, options: &str) {
        let mut start = self.pg_ctl("start");
        start.args(["-o", options]);
        clock::preload(&self.folder, &mut start);
        start.arg("-l").arg(self.folder.join("log"));
        // Not through a pipe: the server would inherit it, and reading it would wait for the server to end.
        let status = start.status().expect("cannot run pg_ctl");
        assert!(status.success(), "the server does not start; its log:\n{}", self.log());
    }

    /// Stops the server and returns when it is down.
    pub fn stop(&self, how: Shutdown) {
        let mode = match how {
            Shutdown::Fast => "fast",
            Shutdown::Immediate => "immediate",
        };
        let mut stop = self.pg_ctl("stop");
        stop.args(["-m", mode]);
        run(stop);
    }

    /// Stops and starts.
    pub fn restart(&self, how: Shutdown) {
        self.stop(how);
        self.start();
    }

    /// Every process dies in the same instant, as when the machine loses power. [`Cluster::start`] recovers.
    pub fn crash(&self) {
        let postmaster = self.postmaster();
        // Stopped first, so that it starts no child while the list is read: one that is left would keep the next server from starting.
        proc::kill(postmaster, Signal::STOP);
        wait_until("the postmaster to stop", PATIENCE, || proc::is_stopped(postmaster).then_some(()));
        let mut all = proc::children(postmaster);
        all.push(postmaster);
        for pid in &all {
            proc::kill(*pid, Signal::KILL);
        }
        wait_until("the killed processes to be gone", PATIENCE, || {
            all.iter().all(|pid| !proc::is_alive(*pid)).then_some(())
        });
        // Where process 1 collects no orphans (many containers), the dead postmaster's id stays taken, and the next one would believe
        // that it still runs. After a loss of power it would not be.
        for file in ["data/postmaster.pid", ".s.PGSQL.5432.lock"] {
            fs::remove_file(self.folder.join(file)).expect("a crashed postmaster leaves its lock files");
        }
    }

    /// Has the settings of this cluster win over those in the file that its data came with.
    fn configure(&self) {
        let file = self.data().join("postgresql.conf");
        let mut file = fs::OpenOptions::new().append(true).open(&file).expect("the copy has a postgresql.conf");
        file.write_all(self.lines.as_bytes()).unwrap();
    }

    /// Makes a stopped server a standby of another one, which was its standby before: what it wrote beyond the other's history is taken
    /// back (pg_rewind, which needs wal_log_hints).
    pub fn rejoin(&self, primary: &Cluster) {
        // Until its first checkpoint a promoted server's control file names the old timeline, which pg_rewind goes by.
        primary.execute("checkpoint");
        let mut rewind = as_server_user(bin().join("pg_rewind"));
        rewind.args(["--write-recovery-conf", "--no-sync", "--source-server"]);
        rewind.arg(format!("host={} user=postgres dbname=postgres", primary.folder().display()));
        rewind.arg("--target-pgdata").arg(self.data());
        run(rewind);
        // It brings the other's settings along.
        self.configure();
        self.start();
    }

    /// Brings the contents of another stopped server into this one, which is stopped and new, with pg_upgrade.
    pub fn upgrade_from(&self, old: &Cluster) {
        // It leaves its logs and scripts in the folder that it runs in.
        let mut upgrade = as_server_user(bin().join("pg_upgrade"));
        upgrade.current_dir(self.folder()).args(["--username=postgres", "--socketdir"]).arg(self.folder());
        upgrade.arg("--old-bindir").arg(bin()).arg("--new-bindir").arg(bin());
        upgrade.arg("--old-datadir").arg(old.data()).arg("--new-datadir").arg(self.data());
        run(upgrade);
    }

    /// Compares every index of `sched` with its table, and each page with those above and beside it (pg_amcheck).
    pub fn check_indexes(&self) {
        if !has_contrib() {
            println!("skipped: this server has no amcheck, so its indexes are not looked at");
            return;
        }
        let mut check = as_server_user(bin().join("pg_amcheck"));
        check.args(["--username=postgres", "--database=postgres", "--schema=sched", "--install-missing", "--host"]);
        check.arg(self.folder()).args(["--heapallindexed", "--parent-check", "--rootdescend", "--jobs=1"]);
        run(check);
    }

    /// Ends recovery on a standby.
    pub fn promote(&self) {
        run(self.pg_ctl("promote"));
    }

    /// Has the settings read again, and returns when every process has been told.
    pub fn reload(&self) {
        // A new session says when the postmaster, whose child it is, read them last. It tells the others before it takes the next one in.
        let read = || -> Option<String> {
            let mut session = self.try_connect_as("postgres", "postgres").ok()?;
            Some(session.query_one("select pg_conf_load_time()::text", &[]).ok()?.get(0))
        };
        let before = wait_until("a session", PATIENCE, read);
        run(self.pg_ctl("reload"));
        wait_until("the settings to be read", PATIENCE, || read().filter(|now| *now != before));
    }

    /// The process id of the postmaster of a running server.
    pub fn postmaster(&self) -> i32 {
        let file = self.data().join("postmaster.pid");
        let text = fs::read_to_string(&file).unwrap_or_else(|_| panic!("the server is not running"));
        text.lines().next().and_then(|line| line.parse().ok()).expect("postmaster.pid starts with a process id")
    }

    fn pg_ctl(&self, action: &str) -> Command {
        let mut command = as_server_user(self.bin.join("pg_ctl"));
        command.args([action, "-s", "-w", "-t", "120", "-D"]).arg(self.data());
        command
    }
}

/// The files of the server in another folder, as links: they are to be replaced, not written to. Where its programs are there.
fn copy_server(into: &Path) -> PathBuf {
    let bin = bin();
    let root = bin.ancestors().nth(4).expect("lib/postgresql/VERSION/bin");
    let mut copy = Command::new("cp");
    copy.arg("-al").args([root, into]);
    run(copy);
    into.join(bin.strip_prefix(root).expect("a path below it"))
}

impl Default for Cluster {
    fn default() -> Self {
        Self::new()
    }
}

impl Drop for Cluster {
    fn drop(&mut self) {
        if thread::panicking() {
            let log = self.log();
            let lines: Vec<_> = log.lines().collect();
            println!("---- the end of the server's log ----\n{}", lines[lines.len().saturating_sub(80)..].join("\n"));
        }
    }
}
