//! The processes of the application in examples/fastapi, started as its README says, and kept running as by a supervisor.

use super::load::Load;
use scheduler_cluster_tests::pooler::Pooler;
use scheduler_cluster_tests::proc::{is_alive, kill, Program, Signal};
use scheduler_cluster_tests::random::Random;
use scheduler_cluster_tests::scheduler::one;
use scheduler_cluster_tests::{python, repository, wait_until, Client, Cluster};
use std::collections::{BTreeMap, BTreeSet};
use std::net::{TcpListener, TcpStream};
use std::process::Command;
use std::sync::atomic::Ordering;
use std::time::{Duration, Instant};

/// For a process to start or to end on a busy machine.
const PATIENCE: Duration = Duration::from_secs(90);
const RUNS_DONE: &str = "select (select count(*) from reservation) + (select count(*) from payment)";
/// Runs and attempts that processes which are gone still hold: their leases run out.
const HELD: &str =
    "select id::text || ' ' || attempt from sched.running where split_part(runner_id, '/', 2) = any ($1)";
const RUNNING: &str = "select id::text || ' ' || attempt from sched.running where job_name = any ($1)";
const AT_ONCE: &str = "select coalesce(max(runs), 0) from (select count(*) as runs from sched.running where queue = 'shop charges' group by split_part(runner_id, '/', 2)) as one";
/// Failed attempts, and why.
const FAILED: &str = "select id::text || ' ' || attempt, concat_ws(' ', job_name, error_code, left(split_part(error_msg, e'\n', 1), 120)) from sched.failed";
/// The sessions that the workers have besides the pooler's.
const LISTENING: &str =
    "select application_name from pg_stat_activity where application_name like 'shop charges listens %'";

#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Kind {
    Worker,
    Web,
    Session,
    Pooler,
}

pub struct Shop {
    pub cluster: Cluster,
    pub db: Client,
    pooler: Pooler,
    console: Option<Client>,
    pub ports: Vec<u16>,
    web: Vec<Program>,
    workers: Vec<Program>,
    started: u32,
    pub kills: BTreeMap<Kind, u32>,
    pub restarts: u32,
    /// Instances that have ended by themselves: at their start, while the database is away.
    pub web_ended: u32,
    /// Process ids of killed workers; the attempts that those had in hand, and those that may have lost their server process.
    dead: Vec<String>,
    pub killed_attempts: BTreeSet<String>,
    pub cut_off_attempts: BTreeSet<String>,
    pub failures: BTreeMap<String, String>,
    /// For each worker process the most connections of its worker in mode "finish" at a time; and the most runs of one.
    pub connections: BTreeMap<String, usize>,
    pub most_at_once: i64,
    sampled: Instant,
    /// What the workers have printed that have ended.
    pub printed: String,
}

impl Shop {
    /// `lease`: how soon a killed worker is noticed. Workers pause for up to 15 s between two attempts to connect, the longer the more have failed.
    pub fn open(lease: &str, random: &mut Random) -> Self {
        let cluster = Cluster::builder().set("max_connections", "150").start();
        cluster.execute("create role shop login");
        cluster.execute("create database shop owner shop");
        let mut db = cluster.with_extension("shop");
        db.batch_execute(
            "select sched.grant_use('shop'); alter role shop set default_transaction_isolation = 'serializable';
             alter role shop set idle_in_transaction_session_timeout = '5s'",
        )
        .unwrap();
        let pooler = Pooler::start(&cluster, "transaction", &["shop"], 40);
        let mut here = Self {
            cluster,
            db,
            pooler,
            console: None,
            ports: free_ports(3, random),
            web: Vec::new(),
            workers: Vec::new(),
            started: 0,
            kills: BTreeMap::new(),
            restarts: 0,
            web_ended: 0,
            dead: Vec::new(),
            killed_attempts: BTreeSet::new(),
            cut_off_attempts: BTreeSet::new(),
            failures: BTreeMap::new(),
            connections: BTreeMap::new(),
            most_at_once: 0,
            sampled: Instant::now(),
            printed: String::new(),
        };
        for _ in 0..2 {
            let mut migration = here.program(&["shop.migrate"]);
            let ended = wait_until("the migration to end", PATIENCE, || migration.ended());
            assert!(ended.success(), "{}", migration.printed());
        }
        let mut shop = here.cluster.connect_as("shop", "shop");
        for job in ["shop reserve", "shop charge", "shop report"] {
            shop.execute("select sched.alter_job($1, stale_timeout => $2::text::interval)", &[&job, &lease]).unwrap();
        }
        here.web = (0..3).map(|number| here.start_web(number)).collect();
        here.workers = (0..2).map(|_| here.start_worker()).collect();
        for number in 0..3 {
            here.wait_for_web(number);
        }
        here
    }

    fn program(&mut self, arguments: &[&str]) -> Program {
        self.started += 1;
        let mut program = Command::new(python());
        program.arg("-m").args(arguments).current_dir(repository().join("examples/fastapi"));
        program.env("PYTHONPATH", repository().join("clients/python")).env("PYTHONDONTWRITEBYTECODE", "1");
        let payments: Vec<String> = self.ports.iter().map(|port| format!("http://127.0.0.1:{port}")).collect();
        program.env("SHOP_PAYMENTS", payments.join(",")).env("SHOP_REPORT_CLOCK", "every 5 seconds");
        program.env("SHOP_DATABASE", format!("host={} port=6432", self.pooler.host()));
        program.env("SHOP_DIRECT", format!("host={}", self.cluster.folder().display()));
        let log = self.cluster.folder().join(format!("program-{}.log", self.started));
        Program::start(self.cluster.client(program, "shop", "shop"), &log)
    }

    fn start_web(&mut self, number: usize) -> Program {
        let port = self.ports[number].to_string();
        self.program(&["shop.web", "--port", &port])
    }

    fn start_worker(&mut self) -> Program {
        self.program(&["shop.worker"])
    }

    fn wait_for_web(&mut self, number: usize) {
        wait_until("an instance to listen", PATIENCE, || {
            self.supervise();
            TcpStream::connect(("127.0.0.1", self.ports[number])).ok()
        });
    }

    /// Starts again what has ended. A worker never does by itself.
    fn supervise(&mut self) {
        for number in 0..self.web.len() {
            if self.web[number].ended().is_some() {
                self.web_ended += 1;
                println!(
                    "an instance has ended by itself: {}",
                    self.web[number].printed().lines().last().unwrap_or_default()
                );
                self.web[number] = self.start_web(number);
            }
        }
        for worker in &mut self.workers {
            if let Some(status) = worker.ended() {
                panic!("a worker has ended by itself ({status}): {}", worker.printed());
            }
        }
    }

    /// Looks at processes, connections and runs; how many runs are done.
    pub fn look(&mut self, load: &Load) -> u64 {
        self.supervise();
        if self.sampled.elapsed() > Duration::from_millis(100) {
            self.sampled = Instant::now();
            self.sample();
        }
        let done = u64::try_from(one::<i64>(&mut self.db, RUNS_DONE)).unwrap();
        load.done.store(done / 2, Ordering::Relaxed);
        done
    }

    fn texts(&mut self, query: &str, list: &[String]) -> Vec<String> {
        self.db.query(query, &[&list]).unwrap().iter().map(|row| row.get(0)).collect()
    }

    fn sample(&mut self) {
        self.note_held();
        let failed = self.db.query(FAILED, &[]).unwrap();
        self.failures.extend(failed.iter().map(|row| (row.get(0), row.get(1))));
        let most: i64 = one(&mut self.db, AT_ONCE);
        self.most_at_once = self.most_at_once.max(most);
        let mut names: Vec<String> = self.db.query(LISTENING, &[]).unwrap().iter().map(|row| row.get(0)).collect();
        if self.console.is_none() {
            self.console = self.pooler.console().ok();
        }
        let Some(Ok(rows)) = self.console.as_mut().map(|console| console.simple_query("show clients")) else {
            self.console = None; // the pooler was killed
            return;
        };
        for row in rows {
            if let postgres::SimpleQueryMessage::Row(row) = row {
                names.extend(
                    row.get("application_name").filter(|name| name.starts_with("shop charges ")).map(str::to_owned),
                );
            }
        }
        let mut now = BTreeMap::<String, usize>::new();
        for name in names {
            *now.entry(name.rsplit(' ').next().unwrap_or_default().to_owned()).or_default() += 1;
        }
        for (process, number) in now {
            let most = self.connections.entry(process).or_default();
            *most = number.max(*most);
        }
    }

    /// Again and again, as a process may have claimed with its last breath.
    fn note_held(&mut self) {
        let dead = self.dead.clone();
        let held = self.texts(HELD, &dead);
        self.killed_attempts.extend(held);
    }

    pub fn kill(&mut self, kind: Kind, random: &mut Random) {
        *self.kills.entry(kind).or_default() += 1;
        let pick = |length: usize, random: &mut Random| usize::try_from(random.below(length as u64)).unwrap();
        match kind {
            Kind::Worker => {
                let number = pick(self.workers.len(), random);
                let new = self.start_worker();
                let mut old = std::mem::replace(&mut self.workers[number], new);
                end(&mut old, Signal::KILL);
                self.dead.push(old.pid().to_string());
                self.note_held();
                self.printed += &old.printed();
            }
            Kind::Web => {
                let number = pick(self.web.len(), random);
                end(&mut self.web[number], Signal::KILL);
                self.web[number] = self.start_web(number);
            }
            Kind::Session => {
                self.note_cut_off();
                let victim = "select pg_terminate_backend(pid) from (select pid from pg_stat_activity where usename = 'shop'
                     and backend_type = 'client backend' and application_name like 'shop %' order by random() limit 1) as one";
                self.db.query(victim, &[]).unwrap();
            }
            Kind::Pooler => {
                self.pooler.crash();
            }
        }
    }

    /// The runs whose transaction is open now, in mode "run": the handler's statement may be what ends its server process.
    fn note_cut_off(&mut self) {
        let open = self.texts(RUNNING, &["shop reserve".into(), "shop report".into()]);
        self.cut_off_attempts.extend(open);
    }

    /// One process after the other ends by SIGTERM, and another one takes its place.
    pub fn roll(&mut self) {
        for number in 0..self.web.len() {
            end(&mut self.web[number], Signal::TERM);
            self.web[number] = self.start_web(number);
            self.note_held();
            self.wait_for_web(number);
            self.note_held();
            self.restarts += 1;
        }
        for number in 0..self.workers.len() {
            let new = self.start_worker();
            let mut old = std::mem::replace(&mut self.workers[number], new);
            self.end_worker(&mut old);
            self.restarts += 1;
        }
    }

    /// It gives back what it does: nothing is left of it when it has ended.
    fn end_worker(&mut self, worker: &mut Program) {
        let name = format!("shop charges listens {}", worker.pid());
        wait_until("a worker to be at work", PATIENCE, || {
            self.supervise();
            self.note_held();
            self.db.query(LISTENING, &[]).unwrap().iter().any(|row| row.get::<_, String>(0) == name).then_some(())
        });
        let status = end(worker, Signal::TERM);
        assert!(status.success(), "a worker ended with {status}: {}", worker.printed());
        let left = self.texts(HELD, &[worker.pid().to_string()]);
        assert!(left.is_empty(), "a worker has not given back {left:?}: {}", worker.printed());
        self.printed += &worker.printed();
    }

    pub fn close(&mut self) {
        for mut worker in std::mem::take(&mut self.workers) {
            self.end_worker(&mut worker);
        }
        for web in &mut self.web {
            end(web, Signal::TERM);
            self.printed += &web.printed();
        }
    }
}

fn end(program: &mut Program, signal: Signal) -> std::process::ExitStatus {
    kill(program.pid(), signal);
    let status = wait_until("a process to end", PATIENCE, || program.ended());
    assert!(!is_alive(program.pid()));
    status
}

/// Below those that the system gives to connections, as a process takes its port again after a restart.
fn free_ports(number: usize, random: &mut Random) -> Vec<u16> {
    let mut taken = Vec::new();
    while taken.len() < number {
        let port = u16::try_from(10_000 + random.below(20_000)).unwrap();
        taken.extend(TcpListener::bind(("127.0.0.1", port)));
    }
    taken.iter().map(|listener| listener.local_addr().unwrap().port()).collect()
}
