//! PgBouncer in front of a cluster, on a Unix socket.

use crate::cluster::Cluster;
use crate::environment::{as_server_user, built, run};
use crate::proc::{kill, Program, Signal};
use crate::wait::wait_until;
use postgres::{Client, Config, NoTls};
use std::fs;
use std::os::unix::net::UnixStream;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::time::Duration;

/// Its process, and the folder of its socket (port 6432); it ends with this.
#[derive(Debug)]
pub struct Pooler {
    program: Program,
    folder: PathBuf,
    log: PathBuf,
}

const PATIENCE: Duration = Duration::from_secs(40);

/// Who may ask for its statistics, in the database `pgbouncer`.
const READER: &str = "statistics";

impl Pooler {
    /// `mode` is session, transaction or statement; `roles` may connect, and share this many connections to the server.
    pub fn start(cluster: &Cluster, mode: &str, roles: &[&str], size: u32) -> Pooler {
        let folder = cluster.folder().join("pooler");
        run(with_arguments(as_server_user("mkdir"), &[&folder]));
        let users: String = roles.iter().chain(&[READER]).map(|role| format!("\"{role}\" \"\"\n")).collect();
        fs::write(folder.join("users"), users).expect("the users can be written");
        let user = std::env::var("SCHEDULER_RUNAS").unwrap_or_default();
        let here = folder.display();
        let user = if user.is_empty() { user } else { format!("user = {user}\n") };
        let settings = format!(
            "[databases]\n* = host={} port=5432\n[pgbouncer]\nlisten_addr =\nlisten_port = 6432\nunix_socket_dir = {here}\n\
             auth_type = trust\nauth_file = {here}/users\npool_mode = {mode}\ndefault_pool_size = {size}\nstats_users = {READER}\n{user}",
            cluster.folder().display()
        );
        let file = folder.join("pgbouncer.ini");
        fs::write(&file, settings).expect("the settings can be written");
        let log = cluster.folder().join("pooler.log");
        Pooler { program: start(&folder, &log), folder, log }
    }

    /// Its process dies, with the connections of all clients, and another one starts in its place.
    pub fn crash(&mut self) {
        kill(self.program.pid(), Signal::KILL);
        wait_until("PgBouncer to be gone", PATIENCE, || self.program.ended());
        self.program = start(&self.folder, &self.log);
    }

    /// A connection to its console, for `SHOW` by `simple_query`.
    pub fn console(&self) -> Result<Client, postgres::Error> {
        Config::new().host_path(&self.folder).port(6432).user(READER).dbname("pgbouncer").connect(NoTls)
    }

    /// The host of a connection string.
    pub fn host(&self) -> String {
        self.folder.display().to_string()
    }
}

/// Returns when it listens.
fn start(folder: &Path, log: &Path) -> Program {
    let unpacked = built("pooler");
    let libraries = fs::read_dir(unpacked.join("usr/lib")).expect("it has libraries");
    let libraries: Vec<String> = libraries.flatten().map(|entry| entry.path().display().to_string()).collect();
    let mut pgbouncer = Command::new(unpacked.join("usr/sbin/pgbouncer"));
    pgbouncer.arg(folder.join("pgbouncer.ini")).env("LD_LIBRARY_PATH", libraries.join(":"));
    let program = Program::start(pgbouncer, log);
    wait_until("PgBouncer to listen", PATIENCE, || UnixStream::connect(folder.join(".s.PGSQL.6432")).ok());
    program
}

fn with_arguments(mut command: Command, arguments: &[&Path]) -> Command {
    command.args(arguments);
    command
}
