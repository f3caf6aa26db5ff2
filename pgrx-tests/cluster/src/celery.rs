//! Celery with django-celery-beat beside a server: a Django project (`pgrx-tests/beat`) with its tables in a database of it, Beat, and a
//! worker. The broker is a Redis where a test has started one, and else files in the cluster's folder: these a worker may read before they
//! are written, and end.

use crate::cluster::Cluster;
use crate::environment::{built, celery_python, repository, run};
use crate::proc::Program;
use crate::wait::wait_until;
use std::path::PathBuf;
use std::process::Command;
use std::time::Duration;

/// Makes the tables in a database, with some tasks in them (`shop/management/commands/periodic_tasks.py`) if wanted.
pub fn tables(cluster: &Cluster, database: &str, with_tasks: bool) {
    run(python(cluster, database, &["manage.py", "migrate", "--verbosity=0"]));
    if with_tasks {
        run(python(cluster, database, &["manage.py", "periodic_tasks"]));
    }
}

/// Beat.
#[must_use]
pub fn beat(cluster: &Cluster, database: &str) -> Program {
    // It looks for edits once in so many seconds.
    let arguments = ["-m", "celery", "--app=proj", "beat", "--max-interval=1", "--pidfile="];
    Program::start(python(cluster, database, &arguments), &cluster.folder().join("beat.log"))
}

/// A worker, which does what Beat or somebody else sends.
#[must_use]
pub fn worker(cluster: &Cluster, database: &str) -> Program {
    Program::start(worker_command(cluster, database), &cluster.folder().join("celery.log"))
}

/// The command that starts it.
#[must_use]
pub fn worker_command(cluster: &Cluster, database: &str) -> Command {
    python(cluster, database, &["-m", "celery", "--app=proj", "worker", "--pool=solo", "--queues=celery,reports"])
}

/// What hands executions on to Celery.
#[must_use]
pub fn sender(cluster: &Cluster, database: &str) -> Program {
    Program::start(sender_command(cluster, database), &cluster.folder().join("sender.log"))
}

/// The command that starts it, for a test that has more to say to it.
#[must_use]
pub fn sender_command(cluster: &Cluster, database: &str) -> Command {
    let path = repository().join("examples/celery/worker.py");
    python(cluster, database, &[&path.to_string_lossy(), "--app=proj"])
}

/// A Redis, as long as it is not dropped; what waits in it goes with it.
#[derive(Debug)]
pub struct Redis {
    _server: Program,
    socket: PathBuf,
}

impl Redis {
    /// Starts one, or another in the place of one that is gone. It is the broker of all programs that are started after it.
    #[must_use]
    pub fn start(cluster: &Cluster) -> Self {
        let socket = redis_socket(cluster);
        let mut server = redis_command("redis-server");
        server.args(["--port", "0", "--save", "", "--unixsocket"]).arg(&socket);
        let redis = Self { _server: Program::start(server, &cluster.folder().join("redis.log")), socket };
        wait_until("Redis to answer", Duration::from_secs(60), || (redis.ask(&["ping"]) == "PONG").then_some(()));
        redis
    }

    /// How many messages wait in a queue.
    #[must_use]
    pub fn waiting(&self, queue: &str) -> usize {
        self.ask(&["llen", queue]).parse().expect("a number")
    }

    fn ask(&self, words: &[&str]) -> String {
        let mut client = redis_command("redis-cli");
        client.arg("-s").arg(&self.socket).args(words);
        let output = client.output().expect("redis-cli runs");
        String::from_utf8_lossy(&output.stdout).trim().to_owned()
    }
}

fn redis_socket(cluster: &Cluster) -> PathBuf {
    cluster.folder().join("redis")
}

fn redis_command(program: &str) -> Command {
    let folder = built("beat/redis/usr");
    let mut command = Command::new(folder.join("bin").join(program));
    let libraries = std::fs::read_dir(folder.join("lib")).expect("its libraries are there");
    let folders: Vec<String> = libraries.filter_map(|entry| Some(entry.ok()?.path().display().to_string())).collect();
    command.env("LD_LIBRARY_PATH", folders.join(":"));
    command
}

/// A Python that has Celery, in the project's folder.
#[must_use]
pub fn python(cluster: &Cluster, database: &str, arguments: &[&str]) -> Command {
    let mut command = cluster.client(Command::new(celery_python()), "postgres", database);
    let folder = repository().join("pgrx-tests/beat");
    command.args(arguments).current_dir(&folder).env("PYTHONPATH", &folder).env("PYTHONDONTWRITEBYTECODE", "1");
    let socket = redis_socket(cluster);
    if socket.exists() {
        command.env("BROKER_URL", format!("redis+socket://{}", socket.display()));
    }
    command
}
