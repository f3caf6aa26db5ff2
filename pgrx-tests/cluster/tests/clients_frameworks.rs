//! The programs of docs/guides/frameworks.md, as they stand there.

use scheduler_cluster_tests::proc::{kill, Program, Signal};
use scheduler_cluster_tests::scheduler::{one, SOON};
use scheduler_cluster_tests::{python, repository, wait_for, wait_until, Client, Cluster};
use std::fs;
use std::io::{Read as _, Write as _};
use std::net::{TcpListener, TcpStream};
use std::os::unix::fs::symlink;
use std::path::Path;
use std::process::{Command, ExitStatus};

fn setting() -> (Cluster, Client) {
    let cluster = Cluster::new();
    cluster.execute("create role app login");
    let mut db = cluster.with_extension("postgres");
    db.batch_execute(
        "select sched.grant_use('app'); create table account (email text); create table sent (recipient text); grant all on account, sent to app",
    )
    .unwrap();
    let mut app = cluster.connect_as("app", "postgres");
    app.batch_execute("select sched.define_job('mail', queue => 'mail', max_attempts => 3)").unwrap();
    (cluster, db)
}

fn write(folder: &Path, name: &str, text: &str) {
    let file = folder.join(name);
    fs::create_dir_all(file.parent().unwrap()).unwrap();
    fs::write(file, text).unwrap();
}

/// The page's program in this language.
fn program(language: &str) -> String {
    let page = fs::read_to_string(repository().join("docs/guides/frameworks.md")).expect("the page can be read");
    let (_, program) = page.split_once(&format!("```{language}\n")).expect("the page has the program");
    program.split_once("```").expect("which ends").0.to_owned()
}

fn python_in(folder: &Path) -> Command {
    let mut program = Command::new(python());
    program
        .current_dir(folder)
        .env("PYTHONPATH", repository().join("clients/python"))
        .env("PYTHONDONTWRITEBYTECODE", "1");
    program
}

fn end(program: &mut Program) -> ExitStatus {
    kill(program.pid(), Signal::TERM);
    wait_until("it to end", SOON, || program.ended())
}

fn free_port() -> u16 {
    TcpListener::bind(("127.0.0.1", 0)).unwrap().local_addr().unwrap().port()
}

/// An application that listens there signs somebody up: both rows are there, and the mail is sent.
fn signs_up(db: &mut Client, port: u16) {
    let mut connection = wait_until("it to listen", SOON, || TcpStream::connect(("127.0.0.1", port)).ok());
    let request =
        "POST /signup?to=ada%40example.org HTTP/1.1\r\nHost: here\r\nConnection: close\r\nContent-Length: 0\r\n\r\n";
    connection.write_all(request.as_bytes()).unwrap();
    let mut answer = String::new();
    connection.read_to_string(&mut answer).unwrap();
    assert!(answer.contains("200 OK") && answer.contains("execution"), "{answer}");
    wait_for(db, "select count(*) = 1 from sched.execution where status = 'SUCCESS'", SOON);
    assert_eq!(
        one::<String>(db, "select recipient || ' ' || email from sent, account"),
        "ada@example.org ada@example.org"
    );
}

#[test]
fn fastapi_has_a_worker_in_its_lifespan() {
    let (cluster, mut db) = setting();
    let folder = cluster.folder().join("application");
    write(&folder, "app.py", &program("python fastapi"));
    let port = free_port();
    let mut uvicorn = python_in(&folder);
    uvicorn.args(["-m", "uvicorn", "app:app", "--port", &port.to_string()]);
    let mut uvicorn = Program::start(cluster.client(uvicorn, "app", "postgres"), &folder.join("log"));
    signs_up(&mut db, port);
    end(&mut uvicorn);
    assert!(uvicorn.printed().contains("Application shutdown complete"), "{}", uvicorn.printed());

    // A process of its own gives back what it does when it ends, although the worker leaves signals to a host.
    let mut worker = python_in(&folder);
    worker.args(["-m", "pg_scheduler", "app:worker"]);
    let mut worker = Program::start(cluster.client(worker, "app", "postgres"), &folder.join("worker.log"));
    db.batch_execute("set role app; select sched.enqueue('mail', '{\"to\": \"bob@example.org\"}'); reset role")
        .unwrap();
    wait_for(&mut db, "select count(*) = 2 from sched.execution where status = 'SUCCESS'", SOON);
    kill(worker.pid(), Signal::TERM);
    let status = wait_until("it to end", SOON, || worker.ended());
    assert!(status.success(), "{status}: {}", worker.printed());
}

#[test]
fn express_has_a_worker_beside_it() {
    let (cluster, mut db) = setting();
    let folder = cluster.folder().join("application");
    write(&folder, "app.mjs", &program("js express"));
    let modules = folder.join("node_modules");
    fs::create_dir(&modules).unwrap();
    symlink(repository().join("clients/typescript"), modules.join("pg-scheduler")).unwrap();
    for installed in ["express", "pg"] {
        let there = repository().join("pgrx-tests/drivers/node_modules").join(installed);
        symlink(there, modules.join(installed)).unwrap();
    }
    let port = free_port();
    let mut node = Command::new("node");
    node.arg("app.mjs").current_dir(&folder).env("PORT", port.to_string());
    let mut node = Program::start(cluster.client(node, "app", "postgres"), &folder.join("log"));
    signs_up(&mut db, port);
    // An account that cannot be has no mail.
    db.batch_execute("alter table account add unique (email) deferrable initially deferred").unwrap();
    let mut connection = TcpStream::connect(("127.0.0.1", port)).unwrap();
    connection.write_all(b"POST /signup?to=ada%40example.org HTTP/1.0\r\n\r\n").unwrap();
    let mut answer = String::new();
    connection.read_to_string(&mut answer).unwrap();
    assert!(answer.contains("500 Internal Server Error"), "{answer}");
    assert_eq!(one::<i64>(&mut db, "select count(*) from sched.execution"), 1);
    // What runs at SIGTERM ends within the grace.
    db.batch_execute("select sched.enqueue('mail', '{\"to\": \"grace@example.org\"}')").unwrap();
    wait_for(&mut db, "select count(*) = 2 from sched.execution where attempt = 1", SOON);
    let ended = end(&mut node);
    assert!(ended.success(), "{ended}: {}", node.printed());
    assert_eq!(one::<i64>(&mut db, "select count(*) from sent where recipient = 'grace@example.org'"), 1);
}

#[test]
fn django_has_a_command_that_works() {
    let (cluster, mut db) = setting();
    let folder = cluster.folder().join("application");
    let settings = format!(
        "SECRET_KEY = 'of the test'\nINSTALLED_APPS = ['mail']\nUSE_TZ = True\nDATABASES = {{'default': {{'ENGINE': 'django.db.backends.postgresql', \
         'NAME': 'postgres', 'USER': 'app', 'HOST': '{}'}}}}\n",
        cluster.folder().display()
    );
    write(&folder, "settings.py", &settings);
    write(&folder, "mail/__init__.py", "");
    write(&folder, "mail/apps.py", &program("python django-apps"));
    write(&folder, "mail/jobs.py", &program("python django-jobs"));
    write(&folder, "mail/management/__init__.py", "");
    write(&folder, "mail/management/commands/__init__.py", "");
    write(&folder, "mail/management/commands/runworker.py", &program("python django-command"));
    let django = |arguments: &[&str]| {
        let mut program = python_in(&folder);
        program.args(["-m", "django"]).args(arguments).env("DJANGO_SETTINGS_MODULE", "settings");
        let path = std::env::join_paths([folder.clone(), repository().join("clients/python")]).unwrap();
        program.env("PYTHONPATH", path);
        program
    };
    let signs_up = "from mail.jobs import sign_up; sign_up('ada@example.org')";
    let mut first = Program::start(django(&["shell", "-c", signs_up]), &folder.join("shell.log"));
    let ended = wait_until("it to end", SOON, || first.ended());
    assert!(ended.success(), "{}", first.printed());
    assert_eq!(one::<i64>(&mut db, "select count(*) from sched.execution where status = 'PENDING'"), 1);
    let mut worker = Program::start(django(&["runworker"]), &folder.join("worker.log"));
    wait_for(&mut db, "select count(*) = 1 from sched.execution where status = 'SUCCESS'", SOON);
    assert_eq!(
        one::<String>(&mut db, "select recipient || ' ' || email from sent, account"),
        "ada@example.org ada@example.org"
    );
    end(&mut worker);
    assert!(!worker.printed().contains("Traceback"), "{}", worker.printed());
}
