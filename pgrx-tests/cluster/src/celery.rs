//! Celery with django-celery-beat beside a server: the tables in a database of it, Beat, and a worker. Brokers are files in the cluster's
//! folder.

use crate::cluster::Cluster;
use crate::environment::{celery_python, repository, run};
use crate::proc::Program;
use std::process::Command;

/// Makes the tables in a database, with some tasks in them (`pgrx-tests/beat/tasks.py`) if wanted.
pub fn tables(cluster: &Cluster, database: &str, with_tasks: bool) {
    run(python(cluster, database, &["-m", "django", "migrate", "--settings=settings", "--verbosity=0"]));
    if with_tasks {
        run(python(cluster, database, &["tasks.py"]));
    }
}

/// Beat.
#[must_use]
pub fn beat(cluster: &Cluster, database: &str) -> Program {
    // It looks for edits once in so many seconds.
    let arguments = ["-m", "celery", "--app=shop", "beat", "--max-interval=1", "--pidfile="];
    Program::start(python(cluster, database, &arguments), &cluster.folder().join("beat.log"))
}

/// A worker, which does what Beat or somebody else sends.
#[must_use]
pub fn worker(cluster: &Cluster, database: &str) -> Program {
    let arguments = ["-m", "celery", "--app=shop", "worker", "--pool=solo", "--queues=celery,reports"];
    Program::start(python(cluster, database, &arguments), &cluster.folder().join("celery.log"))
}

/// What hands executions on to Celery.
#[must_use]
pub fn sender(cluster: &Cluster, database: &str) -> Program {
    let path = repository().join("examples/celery/worker.py");
    let command = python(cluster, database, &[&path.to_string_lossy(), "--app=shop"]);
    Program::start(command, &cluster.folder().join("sender.log"))
}

/// A Python that has Celery, in the project's folder.
#[must_use]
pub fn python(cluster: &Cluster, database: &str, arguments: &[&str]) -> Command {
    let mut command = cluster.client(Command::new(celery_python()), "postgres", database);
    let folder = repository().join("pgrx-tests/beat");
    command.args(arguments).current_dir(&folder).env("PYTHONPATH", &folder).env("PYTHONDONTWRITEBYTECODE", "1");
    command
}
