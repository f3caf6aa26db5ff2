//! PgBouncer in front of a cluster, on a Unix socket.

use crate::cluster::Cluster;
use crate::environment::{as_server_user, built, run};
use crate::proc::Program;
use crate::wait::wait_until;
use std::fs;
use std::os::unix::net::UnixStream;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::time::Duration;

/// Its process, and the folder of its socket (port 6432); it ends with this.
#[derive(Debug)]
pub struct Pooler {
    _program: Program,
    folder: PathBuf,
}

impl Pooler {
    /// `mode` is session, transaction or statement; `roles` may connect, and share this many connections to the server.
    pub fn start(cluster: &Cluster, mode: &str, roles: &[&str], size: u32) -> Pooler {
        let folder = cluster.folder().join("pooler");
        run(with_arguments(as_server_user("mkdir"), &[&folder]));
        let users: String = roles.iter().map(|role| format!("\"{role}\" \"\"\n")).collect();
        fs::write(folder.join("users"), users).expect("the users can be written");
        let user = std::env::var("SCHEDULER_RUNAS").unwrap_or_default();
        let here = folder.display();
        let user = if user.is_empty() { user } else { format!("user = {user}\n") };
        let settings = format!(
            "[databases]\n* = host={} port=5432\n[pgbouncer]\nlisten_addr =\nlisten_port = 6432\nunix_socket_dir = {here}\n\
             auth_type = trust\nauth_file = {here}/users\npool_mode = {mode}\ndefault_pool_size = {size}\n{user}",
            cluster.folder().display()
        );
        let file = folder.join("pgbouncer.ini");
        fs::write(&file, settings).expect("the settings can be written");
        let unpacked = built("pooler");
        let libraries = fs::read_dir(unpacked.join("usr/lib")).expect("it has libraries");
        let libraries: Vec<String> = libraries.flatten().map(|entry| entry.path().display().to_string()).collect();
        let mut pgbouncer = Command::new(unpacked.join("usr/sbin/pgbouncer"));
        pgbouncer.arg(&file).env("LD_LIBRARY_PATH", libraries.join(":"));
        let program = Program::start(pgbouncer, &cluster.folder().join("pooler.log"));
        let pooler = Pooler { _program: program, folder };
        wait_until("PgBouncer to listen", Duration::from_secs(40), || {
            UnixStream::connect(pooler.folder.join(".s.PGSQL.6432")).ok()
        });
        pooler
    }

    /// The host of a connection string.
    pub fn host(&self) -> String {
        self.folder.display().to_string()
    }
}

fn with_arguments(mut command: Command, arguments: &[&Path]) -> Command {
    command.args(arguments);
    command
}
