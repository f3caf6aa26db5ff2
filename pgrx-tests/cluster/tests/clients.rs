//! The worker libraries in `clients/`: each plays the conformance worker (docs/guides/write-a-worker.md), is killed, and loses and doubles nothing.

use scheduler_cluster_tests::proc::{is_alive, kill, Program, Signal};
use scheduler_cluster_tests::random::Random;
use scheduler_cluster_tests::scheduler::{one, SOON};
use scheduler_cluster_tests::{built, conn, door, python, repository, wait_for, wait_until, Client, Cluster, Shutdown};
use std::fs::{self, File};
use std::io::Write as _;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::time::Duration;

/// A client's conformance worker.
pub type Worker = fn(&Cluster) -> Command;

/// A program that imports the Python client.
fn python_program(path: &Path) -> Command {
    let mut program = Command::new(python());
    program.arg(path).env("PYTHONPATH", repository().join("clients/python")).env("PYTHONDONTWRITEBYTECODE", "1");
    program
}

pub fn python_worker(_: &Cluster) -> Command {
    python_program(&repository().join("clients/python/conformance.py"))
}

pub fn asyncio_worker(_: &Cluster) -> Command {
    python_program(&repository().join("clients/python/conformance_asyncio.py"))
}

pub fn javascript_worker(_: &Cluster) -> Command {
    let mut worker = Command::new("node");
    worker.arg(repository().join("clients/typescript/dist/conformance.js"));
    worker
}

/// The program of the guide in this language, in a file of that name.
fn guides_program(cluster: &Cluster, language: &str, name: &str) -> PathBuf {
    let page = fs::read_to_string(repository().join("docs/guides/write-a-worker.md")).expect("the guide can be read");
    let (_, program) = page.split_once(&format!("```{language} own\n")).expect("the guide has the program");
    let (program, _) = program.split_once("```").expect("which ends");
    let file = cluster.folder().join(name);
    fs::write(&file, program).expect("the program can be written");
    file
}

/// What stands beside it: the handlers of the conformance worker.
fn handlers(name: &str) -> PathBuf {
    repository().join("pgrx-tests/recipes").join(name)
}

fn own_worker(cluster: &Cluster) -> Command {
    own_worker_with(cluster, &fs::read(handlers("handlers.py")).expect("they can be read"))
}

fn own_worker_with(cluster: &Cluster, handlers: &[u8]) -> Command {
    let file = guides_program(cluster, "python", "own.py");
    File::options().append(true).open(&file).and_then(|mut file| file.write_all(handlers)).expect("they can be added");
    let mut worker = Command::new(python());
    worker.arg(file);
    worker
}

fn compiled(mut compiler: Command) {
    let output = compiler.output().expect("the compiler can be started");
    assert!(output.status.success(), "{}", conn::text(&output));
}

fn go_worker(cluster: &Cluster) -> Command {
    let worker = cluster.folder().join("worker");
    if !worker.exists() {
        let unpacked = built("recipes");
        let mut go = Command::new(unpacked.join("usr/lib/go/bin/go"));
        go.env("GOROOT", unpacked.join("usr/lib/go"))
            .env("GOPATH", unpacked.join("usr/share/gocode"))
            .env("GO111MODULE", "off");
        go.env("GOCACHE", unpacked.join("cache")).env("GOFLAGS", "").arg("build").arg("-o").arg(&worker);
        // It wants them beside each other.
        let beside = cluster.folder().join("conformance.go");
        fs::copy(handlers("conformance.go"), &beside).expect("it can be copied");
        go.arg(guides_program(cluster, "go", "worker.go")).arg(beside);
        compiled(go);
    }
    Command::new(worker)
}

/// Its driver knows no Unix sockets.
fn java_worker(cluster: &Cluster) -> Command {
    let driver = built("recipes").join("usr/share/java/postgresql.jar");
    let classes = cluster.folder().join("classes");
    if !classes.exists() {
        let mut javac = Command::new("javac");
        javac.args(["-Xlint:all,-serial", "-Werror", "-cp"]).arg(&driver).arg("-d").arg(&classes);
        javac.arg(guides_program(cluster, "java", "Worker.java")).arg(handlers("Conformance.java"));
        compiled(javac);
    }
    let mut worker = Command::new("java");
    worker.args([
        "-XX:TieredStopAtLevel=1",
        "-cp",
        &format!("{}:{}", driver.display(), classes.display()),
        "Conformance",
    ]);
    worker.arg(format!("127.0.0.1:{}", door(cluster)));
    worker
}

pub struct Setting {
    pub cluster: Cluster,
    pub db: Client,
    /// Where workers connect: a pooler's folder; without one, the cluster.
    pub pooler: Option<String>,
    started: u32,
}

impl Setting {
    pub fn new() -> Setting {
        let cluster = Cluster::new();
        cluster.execute("create role app login");
        let mut db = cluster.with_extension("postgres");
        db.batch_execute(
            "select sched.grant_use('app'); create table effect (execution_id uuid, attempt int, what text, at timestamptz default clock_timestamp()); grant all on effect to app",
        )
        .unwrap();
        let mut app = cluster.connect_as("app", "postgres");
        app.batch_execute(
            "select sched.define_job(j, queue => 'conformance', retry_backoff => '{1 hour}', stale_timeout => '4 s', max_attempts => 100)
               from unnest('{effect, typed, fail, retry, discard, slow, batch, of nobody}'::text[]) as j;
             select sched.alter_job('slow', retry_backoff => '{0 s}'), sched.alter_job('effect', retry_backoff => '{0 s}'), sched.alter_job('batch', retry_backoff => '{0 s}')",
        )
        .unwrap();
        Setting { cluster, db, pooler: None, started: 0 }
    }

    pub fn start(&mut self, worker: Worker) -> Program {
        self.start_with(worker, &[])
    }

    pub fn start_with(&mut self, worker: Worker, arguments: &[&str]) -> Program {
        self.started += 1;
        let log = self.cluster.folder().join(format!("worker-{}.log", self.started));
        let mut program = self.cluster.client(worker(&self.cluster), "app", "postgres");
        program.args(arguments);
        if let Some(host) = &self.pooler {
            program.env("PGHOST", host).env("PGPORT", "6432");
        }
        Program::start(program, &log)
    }

    pub fn enqueue(&mut self, job: &str, payload: &str) -> String {
        let mut app = self.cluster.connect_as("app", "postgres");
        one(&mut app, &format!("select sched.enqueue('{job}', '{payload}')::text"))
    }

    pub fn waits_for(&mut self, id: &str, condition: &str) {
        let condition = format!("select {condition} from sched.execution where id = '{id}'");
        wait_for(&mut self.db, &condition, SOON);
    }

    pub fn effects(&mut self, id: &str) -> i64 {
        one(&mut self.db, &format!("select count(*) from effect where execution_id = '{id}'"))
    }
}

pub fn signal(program: &Program, signal: Signal) {
    kill(program.pid(), signal);
}

fn conforms(worker: Worker) {
    let mut here = Setting::new();
    let mut program = here.start(worker);
    let ids: Vec<(&str, String)> = ["effect", "typed", "fail", "retry", "discard", "batch", "of nobody"]
        .map(|job| (job, here.enqueue(job, r#"{"number": 7, "to": "somebody"}"#)))
        .into();
    for (job, id) in &ids {
        let (condition, effects) = match *job {
            "effect" => ("status = 'SUCCESS' and result = '{\"done\": 7}' and attempt = 1", 1),
            "typed" => ("status = 'SUCCESS' and attempt = 1", 1),
            "batch" => ("status = 'SUCCESS'", 1),
            "fail" => (
                "status = 'FAILED' and error_msg like '%told to fail%' and next_retry_at > now() + interval '50 min'",
                0,
            ),
            "retry" => ("status = 'SUCCESS' and attempt = 2", 0),
            "discard" => ("status = 'FAILED' and next_retry_at is null and error_msg like '%of no use%'", 0),
            _ => ("status = 'FAILED' and error_msg like '%of nobody%' and next_retry_at is not null", 0),
        };
        here.waits_for(id, condition);
        assert_eq!(here.effects(id), effects, "{job}: {}", program.printed());
    }
    assert_eq!(one::<String>(&mut here.db, "select string_agg(what, '') from effect"), "somebody");

    // It listens: work is taken long before the next poll. What a failed attempt wrote has not come with what was done after it.
    let failed = here.enqueue("fail", "{}");
    here.waits_for(&failed, "status = 'FAILED'");
    let told = here.enqueue("effect", "{}");
    here.waits_for(&told, "status = 'SUCCESS' and finished_at - created_at < interval '2 s'");
    assert_eq!(here.effects(&failed), 0, "{}", program.printed());

    // A cancel interrupts what runs.
    let cancelled = here.enqueue("slow", "{}");
    here.waits_for(&cancelled, "status = 'RUNNING'");
    here.db.execute(&format!("select sched.cancel('{cancelled}')"), &[]).unwrap();
    here.waits_for(&cancelled, "status = 'CANCELLED' and finished_at - started_at < interval '20 s'");

    // Heartbeats keep a lease for longer than it lasts, and who has lost it writes nothing.
    let kept = here.enqueue("slow", r#"{"seconds": 6}"#);
    here.waits_for(&kept, "status = 'SUCCESS' and attempt = 1");
    assert_eq!(here.effects(&kept), 1);
    let lost = here.enqueue("slow", r#"{"seconds": 3}"#);
    // While its heartbeats go on, so that they hear of it, and interrupt, while the work is about to end by itself.
    here.waits_for(&lost, "status = 'RUNNING' and stale_after > started_at + interval '4.2 s'");
    signal(&program, Signal::STOP);
    here.waits_for(&lost, "status <> 'RUNNING'");
    signal(&program, Signal::CONT);
    here.waits_for(&lost, "status = 'SUCCESS' and attempt = 2");
    assert_eq!(here.effects(&lost), 1, "{}", program.printed());

    // Another server process, as after a failover.
    here.cluster.restart(Shutdown::Immediate);
    here.db = here.cluster.connect();
    let after = here.enqueue("effect", "{}");
    here.waits_for(&after, "status = 'SUCCESS'");

    // SIGTERM: what does not end within the grace is given back, with its attempt.
    let given_back = here.enqueue("slow", "{}");
    here.waits_for(&given_back, "status = 'RUNNING'");
    signal(&program, Signal::TERM);
    let ended = wait_until("the worker to end", SOON, || program.ended());
    assert!(ended.success(), "{ended}: {}", program.printed());
    here.waits_for(&given_back, "status = 'PENDING' and attempt = 0");
    assert_eq!(here.effects(&given_back), 0);
}

/// So many executions under so many kills: each has had its effect once.
fn survives(worker: Worker, executions: i64, kills: u32) {
    let mut here = Setting::new();
    let mut app = here.cluster.connect_as("app", "postgres");
    let mut random = Random::seeded();
    let done = "select count(*) from sched.execution where status = 'SUCCESS'";
    for job in ["effect", "batch"] {
        app.execute(
            "select count(*) from sched.enqueue_many($1, array(select jsonb_build_object('number', i) from generate_series(1, $2::bigint) i))",
            &[&job, &(executions / 2)],
        )
        .unwrap();
    }
    let mut programs: Vec<Program> = (0..2).map(|_| here.start(worker)).collect();
    for number in 0..kills {
        // Not before it has begun to work.
        let before = one::<i64>(&mut here.db, done);
        let left = executions - before;
        let some = i64::try_from(random.below(u64::try_from(left / i64::from(kills - number) + 1).unwrap())).unwrap();
        wait_until("some to be done", Duration::from_secs(120), || {
            (one::<i64>(&mut here.db, done) >= (before + some).min(executions)).then_some(())
        });
        let program = here.start(worker);
        let killed = std::mem::replace(&mut programs[usize::try_from(number).unwrap() % 2], program);
        signal(&killed, Signal::KILL);
        wait_until("it to be gone", SOON, || (!is_alive(killed.pid())).then_some(()));
    }
    wait_until("all to be done", Duration::from_secs(120), || {
        (one::<i64>(&mut here.db, done) == executions).then_some(())
    });
    let once = "select count(*) || ' ' || count(distinct execution_id) from effect";
    assert_eq!(one::<String>(&mut here.db, once), format!("{executions} {executions}"));
}

#[test]
fn python_conforms() {
    conforms(python_worker);
}

#[test]
fn python_survives_fifty_kills() {
    survives(python_worker, 1000, 50);
}

#[test]
fn asyncio_conforms() {
    conforms(asyncio_worker);
}

#[test]
fn asyncio_survives_five_kills() {
    survives(asyncio_worker, 100, 5);
}

/// The trace context travels in the payload, whatever type the handler wants, and a run's span is below the one that enqueued it.
#[test]
fn python_spans_are_below_those_that_enqueued() {
    let here = Setting::new();
    let file = here.cluster.folder().join("spans.py");
    fs::write(&file, SPANS).expect("the program can be written");
    for worker in ["Worker", "AsyncWorker"] {
        let mut program = here.cluster.client(python_program(&file), "app", "postgres");
        let output = program.arg(worker).output().expect("it can be started");
        assert!(output.status.success(), "{worker}: {}", conn::text(&output));
    }
}

const SPANS: &str = r#"
import asyncio, sys
from dataclasses import dataclass
import psycopg
from opentelemetry import trace
from opentelemetry.sdk.trace import TracerProvider
from opentelemetry.sdk.trace.export import SimpleSpanProcessor
from opentelemetry.sdk.trace.export.in_memory_span_exporter import InMemorySpanExporter
from opentelemetry.trace import SpanKind, StatusCode
from pg_scheduler import AsyncWorker, Worker, enqueue
from pg_scheduler.tracing import Tracing, traced

spans = InMemorySpanExporter()
trace.set_tracer_provider(TracerProvider())
trace.get_tracer_provider().add_span_processor(SimpleSpanProcessor(spans))
tracer = trace.get_tracer("test")

@dataclass
class Mail:
    to: str

def mail(run):
    assert run.payload == Mail("somebody"), run.payload
    tracer.start_span("within").end()

async def mail_of_asyncio(run):
    mail(run)

def fail(run):
    raise ValueError("told to fail")

with psycopg.connect() as db, tracer.start_as_current_span("request") as request:
    typed = enqueue(db, "typed", traced({"to": "somebody"}))
    enqueue(db, "fail", traced({}))
with psycopg.connect() as db:
    enqueue(db, "typed", {"to": "somebody"})

if sys.argv[1] == "Worker":
    worker = Worker("", "conformance", hooks=Tracing())
    worker.job("typed", mail, payload=Mail)
    worker.job("fail", fail)
    count = worker.drain()
else:
    worker = AsyncWorker("", "conformance", hooks=Tracing())
    worker.job("typed", mail_of_asyncio, payload=Mail)
    worker.job("fail", fail)
    count = asyncio.run(worker.drain())
assert count == 3, count

found = {name: [span for span in spans.get_finished_spans() if span.name == name] for name in ("typed", "fail", "within")}
ours = [span for span in found["typed"] if span.parent is not None]
[run], [failed] = ours, found["fail"]
for span in (run, failed):
    assert span.parent.span_id == request.get_span_context().span_id, span.to_json()
    assert span.context.trace_id == request.get_span_context().trace_id, span.to_json()
    assert span.kind == SpanKind.CONSUMER
assert run.attributes["messaging.message.id"] == str(typed), run.to_json()
assert run.status.status_code != StatusCode.ERROR and failed.status.status_code == StatusCode.ERROR
assert run.context.span_id in [span.parent.span_id for span in found["within"]]
# What was enqueued without a trace begins one.
[alone] = [span for span in found["typed"] if span.parent is None]
assert alone.context.trace_id != run.context.trace_id
"#;

#[test]
fn the_guides_worker_conforms() {
    conforms(own_worker);
}

/// An error that the ledger cannot hold fails its run, and nothing else.
#[test]
fn the_guides_worker_survives_odd_errors() {
    let mut here = Setting::new();
    let odd = here.enqueue("fail", "{}");
    let after = here.enqueue("retry", "{}");
    let done = here.enqueue("effect", "{}");
    let _program = here.start(|cluster| own_worker_with(cluster, ODD_HANDLERS.as_bytes()));
    for id in [&odd, &after] {
        here.waits_for(id, "status = 'FAILED' and error_code = 'handler_error' and next_retry_at > now()");
    }
    here.waits_for(&done, "status = 'SUCCESS'");
}

const ODD_HANDLERS: &str = r#"
def fail(db, run):
    raise ValueError("a\0b")

def retry(db, run):
    error = Retry("not a timedelta")
    error.after = 60
    raise error

main("conformance", {"fail": fail, "retry": retry, "effect": lambda db, run: None})
"#;

#[test]
#[ignore = "long: needs Go"]
fn the_guides_go_conforms() {
    conforms(go_worker);
}

#[test]
#[ignore = "long: needs Go"]
fn the_guides_go_survives_twenty_kills() {
    survives(go_worker, 400, 20);
}

#[test]
#[ignore = "long: needs Java"]
fn the_guides_java_conforms() {
    conforms(java_worker);
}

#[test]
#[ignore = "long: needs Java"]
fn the_guides_java_survives_twenty_kills() {
    survives(java_worker, 400, 20);
}

#[test]
fn javascript_conforms() {
    conforms(javascript_worker);
}

#[test]
fn javascript_survives_fifty_kills() {
    survives(javascript_worker, 1000, 50);
}
