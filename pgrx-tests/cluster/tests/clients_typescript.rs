//! The TypeScript client where things go wrong: in hooks, in errors, with rights, with servers, and when it is told to stop.

use scheduler_cluster_tests::proc::{kill, Program, Signal};
use scheduler_cluster_tests::scheduler::{one, SOON};
use scheduler_cluster_tests::{repository, wait_for, wait_until, Client, Cluster};
use std::fs;
use std::process::{Command, ExitStatus};

/// What every program here begins with.
const HEAD: &str =
    "const { Discard, Retry, Snooze, Stopped, Worker, main } = require(process.env.CLIENT); const [, , ...words] = process.argv;\n";

pub struct Setting {
    pub cluster: Cluster,
    pub db: Client,
    started: u32,
}

impl Setting {
    pub fn new() -> Setting {
        let cluster = Cluster::new();
        cluster.execute("create role app login");
        cluster.execute("create role stranger login");
        let mut db = cluster.with_extension("postgres");
        db.batch_execute("select sched.grant_use('app')").unwrap();
        let mut app = cluster.connect_as("app", "postgres");
        app.batch_execute("select sched.define_job('once', queue => 'work', max_attempts => 1), sched.define_job('often', queue => 'work', retry_backoff => '{1 hour}')")
            .unwrap();
        Setting { cluster, db, started: 0 }
    }

    /// The job `short`.
    pub fn define_with_lease(&self, length: &str) {
        let mut app = self.cluster.connect_as("app", "postgres");
        let define = format!(
            "select sched.define_job('short', queue => 'work', stale_timeout => '{length}', max_attempts => 1)"
        );
        app.batch_execute(&define).unwrap();
    }

    pub fn enqueue(&self, job: &str, payload: &str) -> String {
        let mut app = self.cluster.connect_as("app", "postgres");
        one(&mut app, &format!("select sched.enqueue('{job}', '{payload}')::text"))
    }

    pub fn start(&mut self, role: &str, program: &str, words: &[&str]) -> Program {
        self.started += 1;
        let file = self.cluster.folder().join(format!("program-{}.js", self.started));
        fs::write(&file, format!("{HEAD}{program}")).expect("the program can be written");
        let mut node = Command::new("node");
        node.arg(&file).args(words).env("CLIENT", repository().join("clients/typescript"));
        Program::start(self.cluster.client(node, role, "postgres"), &file.with_extension("log"))
    }

    /// Starts it and waits for its end.
    pub fn run(&mut self, role: &str, program: &str, words: &[&str]) -> (ExitStatus, String) {
        let mut program = self.start(role, program, words);
        (ended(&mut program), program.printed())
    }

    /// What the ledger says now, the oldest first.
    fn statuses(&mut self) -> String {
        one(
            &mut self.db,
            "select string_agg(status || ' ' || attempt, ', ' order by created_at, id) from sched.execution",
        )
    }

    pub fn waits_for(&mut self, id: &str, condition: &str) {
        let condition = format!("select {condition} from sched.execution where id = '{id}'");
        wait_for(&mut self.db, &condition, SOON);
    }
}

pub fn ended(program: &mut Program) -> ExitStatus {
    wait_until("the program to end", SOON, || program.ended())
}

/// The commit of the first claims the second, and the hook that hears of the first stops the worker.
#[test]
fn max_gives_back_what_was_claimed() {
    let program = "
        main((queue, options) => new Worker({}, queue, options).job('*', async (run) => {
            if (run.payload.fails) throw new Discard('told to fail');
        }));";
    for (payload, first) in [("{}", "SUCCESS 1"), (r#"{"fails": true}"#, "FAILED 1")] {
        for more in [&["--until-idle"][..], &[]] {
            let mut here = Setting::new();
            here.enqueue("once", payload);
            here.enqueue("once", "{}");
            let (status, printed) = here.run("app", program, &[&["--queue", "work", "--max", "1"], more].concat());
            assert!(status.success(), "{status}: {printed}");
            assert_eq!(here.statuses(), format!("{first}, PENDING 0"), "{more:?}: {printed}");
        }
    }
}

#[test]
fn drain_gives_back_at_sigterm() {
    let mut here = Setting::new();
    let id = here.enqueue("once", "{}");
    let program = "
        const worker = new Worker({}, 'work', { graceMs: 100 });
        worker.job('*', (run) => run.db.query('select pg_sleep(600)'));
        worker.drain().then((count) => console.log(`ended: ${count}`));";
    let mut program = here.start("app", program, &[]);
    let sleeps = "select count(*) > 0 from pg_stat_activity where wait_event = 'PgSleep'";
    wait_for(&mut here.db, sleeps, SOON);
    kill(program.pid(), Signal::TERM);
    let status = ended(&mut program);
    assert!(status.success() && program.printed() == "ended: 0\n", "{status}: {}", program.printed());
    here.waits_for(&id, "status = 'PENDING' and attempt = 0");
}

/// Each fails its own run and nothing else.
#[test]
fn errors_that_cannot_be_written() {
    let mut here = Setting::new();
    let program = r"
        const thrown = [
            undefined, null, new Error('a\0b'), new Error('a \ud800 b'), new (class extends Error {})('anonymous'),
            Object.assign(new Error('no code'), { code: '' }), Object.assign(new Error('odd code'), { code: 'a\0b' }),
            Object.assign(new Error('a message of parts'), { message: { self: 1n } }), Object.create(null),
            new Stopped('of its own'), new Retry(NaN), new Retry(Infinity), new Retry(1e300),
        ];
        const worker = new Worker({}, 'work', { batch: 5 });
        worker.job('often', (run) => Promise.reject(thrown[run.payload.number]));
        worker.job('once', async () => {});
        worker.drain().then((count) => console.log(`ended: ${count}`));";
    for number in 0..13 {
        here.enqueue("often", &format!(r#"{{"number": {number}}}"#));
    }
    here.enqueue("once", "{}");
    let (status, printed) = here.run("app", program, &[]);
    assert!(status.success() && printed == "ended: 14\n", "{status}: {printed}");
    let said = "select string_agg(status || ' ' || coalesce(error_code || ', ' || split_part(error_msg, e'\n', 1), ''), e'\n' order by created_at) from sched.execution";
    let unwritable = "FAILED handler_error, its error cannot be written\n";
    let expected = [
        "FAILED Error, Error: undefined\nFAILED Error, Error: null\nFAILED Error, Error: ab\nFAILED Error, Error: a \u{fffd} b\n",
        "FAILED Error, Error: anonymous\nFAILED Error, Error: no code\nFAILED Error, Error: odd code (ab)\nFAILED Error, Error: [object Object]\n",
        unwritable,
        "FAILED Stopped, Stopped: of its own\n",
        &unwritable.repeat(3),
        "SUCCESS ",
    ];
    assert_eq!(one::<String>(&mut here.db, said), expected.concat());
    let retried =
        "select count(*) from sched.execution where status = 'FAILED' and next_retry_at > now() + interval '50 min'";
    assert_eq!(one::<i64>(&mut here.db, retried), 13);
}

/// `Retry` counts from the database's time.
#[test]
fn the_clock_is_the_databases() {
    let mut here = Setting::new();
    let id = here.enqueue("often", "{}");
    let program = "
        const then = Date.now() - 86400e3;
        Date.now = () => then;
        const worker = new Worker({}, 'work').job('*', async () => { throw new Retry(7200); });
        void worker.drain();";
    let (status, printed) = here.run("app", program, &[]);
    assert!(status.success(), "{status}: {printed}");
    here.waits_for(&id, "next_retry_at - finished_at between interval '119 min' and interval '121 min'");
}

#[test]
fn a_hook_that_raises_ends_the_worker() {
    let program = "
        const [hook, part] = words;
        const hooks = { [hook]() { throw new Error('the hook fails'); } };
        const worker = new Worker({}, 'work', { hooks, batch: part === 'run' ? 1 : 2 });
        worker.job('*', async () => { if (hook === 'failed') throw new Error('told to fail'); });
        worker[part]().catch((error) => console.log(error.message));";
    for (hook, first) in [("succeeded", "SUCCESS 1"), ("failed", "FAILED 1")] {
        for part in ["run", "drain"] {
            let mut here = Setting::new();
            here.enqueue("once", "{}");
            here.enqueue("once", "{}");
            let (status, printed) = here.run("app", program, &[hook, part]);
            assert!(status.success() && printed == "the hook fails\n", "{hook}, {part}, {status}: {printed}");
            assert_eq!(here.statuses(), format!("{first}, PENDING 0"), "{hook}, {part}");
        }
    }
}

/// Another connection would not mend it.
#[test]
fn without_a_right_it_ends() {
    let mut here = Setting::new();
    for part in ["run", "drain"] {
        let program = "new Worker({}, 'work')[words[0]]().catch((error) => console.log(error.code, error.message));";
        let (status, printed) = here.run("stranger", program, &[part]);
        assert!(status.success() && printed.starts_with("42501 permission denied"), "{part}, {status}: {printed}");
    }
}

/// Anybody may notify: what is to stop is said by the ledger alone, which the worker asks at once.
#[test]
fn a_forged_cancel_changes_nothing() {
    let mut here = Setting::new();
    let program = "
        const worker = new Worker({}, 'work', { slots: 2 });
        worker.job('*', (run) => run.db.query('select pg_sleep($1)', [run.payload.seconds]));
        void worker.run();";
    let mut program = here.start("app", program, &[]);
    let forged = here.enqueue("once", r#"{"seconds": 8}"#);
    here.waits_for(&forged, "status = 'RUNNING'");
    let mut stranger = here.cluster.connect_as("stranger", "postgres");
    let lease = format!("select stale_after::text from sched.execution where id = '{forged}'");
    let before: String = one(&mut here.db, &lease);
    // The lease is far longer than the run: without the notification no heartbeat would have come. (Again, for it may not listen yet, or not know
    // what it has just claimed.)
    let extended = format!("select stale_after > '{before}' from sched.execution where id = '{forged}'");
    wait_until("a heartbeat", SOON, || {
        stranger.batch_execute(&format!("notify \"sched:cancel\", '{forged}'")).unwrap();
        one::<Option<bool>>(&mut here.db, &extended)?.then_some(())
    });
    here.waits_for(&forged, "status = 'SUCCESS' and attempt = 1");

    let cancelled = here.enqueue("once", r#"{"seconds": 600}"#);
    here.waits_for(&cancelled, "status = 'RUNNING'");
    here.db.execute(&format!("select sched.cancel('{cancelled}')"), &[]).unwrap();
    here.waits_for(&cancelled, "status = 'CANCELLED'");
    kill(program.pid(), Signal::TERM);
    assert!(ended(&mut program).success());
}

#[test]
fn stop_before_run_ends_it() {
    let mut here = Setting::new();
    let program = "
        const worker = new Worker({}, 'work');
        worker.stop();
        worker.run().then(() => worker.run()).then(() => worker.drain()).then((count) => console.log(`ended: ${count}`));";
    here.enqueue("once", "{}");
    let (status, printed) = here.run("app", program, &[]);
    assert!(status.success() && printed == "ended: 0\n", "{status}: {printed}");
    assert_eq!(here.statuses(), "PENDING 0");
}

/// A way to the server that loses what comes after the first `until`, on all connections, or that is lost already.
const PROXIED: &str = "
    function proxied(until, isLost, then) {
        const net = require('node:net');
        const server = net.createServer((client) => {
            client.on('error', () => {});
            const through = net.connect(`${process.env.PGHOST}/.s.PGSQL.5432`).on('error', () => {});
            client.on('close', () => through.destroy()).on('data', (data) => {
                isLost ||= data.includes(until);
                if (!isLost) through.write(data);
            });
            through.on('data', (data) => isLost || client.write(data));
        });
        server.listen(0, '127.0.0.1', () => then({ host: '127.0.0.1', port: server.address().port }, () => server.unref()));
    }";

/// The work waits for an answer that never comes, and no other connection can interrupt it.
#[test]
fn a_dead_server_does_not_keep_it_from_ending() {
    let mut here = Setting::new();
    here.enqueue("once", "{}");
    let program = "
        proxied('select of the handler', false, (there, done) => {
            const worker = new Worker(there, 'work', { graceMs: 100 });
            worker.job('*', (run) => {
                console.log('begun');
                return run.db.query('select of the handler');
            });
            worker.run().finally(done);
        });";
    let mut program = here.start("app", &format!("{PROXIED}{program}"), &[]);
    wait_until("the work to begin", SOON, || program.printed().starts_with("begun").then_some(()));
    kill(program.pid(), Signal::TERM);
    let status = ended(&mut program);
    assert!(status.success(), "{status}: {}", program.printed());
}

/// None there, one that refuses, one that accepts and says nothing, as a load balancer before a dead server does, and one that dies later.
#[test]
fn drain_without_a_server_ends() {
    let mut here = Setting::new();
    let program = "
        proxied('sched.claim', words[0] === 'silent', (there, done) => {
            const servers = { none: [], refuses: { host: '/nowhere' }, silent: there, dies: there };
            new Worker(servers[words[0]], 'work').drain().catch((error) => console.log(`error: ${error.message}`)).finally(done);
        });";
    for (server, message) in [
        ("none", "there is no server"),
        ("refuses", "connect ENOENT"),
        ("silent", "timeout"),
        ("dies", "Query read timeout"),
    ] {
        let (status, printed) = here.run("app", &format!("{PROXIED}{program}"), &[server]);
        let last = printed.lines().last().unwrap_or_default();
        assert!(status.success() && last.starts_with(&format!("error: {message}")), "{server}, {status}: {printed}");
    }
}

/// What still waits for the one would keep its lease by what is said to the other.
#[test]
fn another_server_ends_what_waits_for_the_first() {
    let mut here = Setting::new();
    here.define_with_lease("9 s");
    here.enqueue("short", "{}");
    let program = "
        const net = require('node:net');
        const others = new Set();
        // All connections end but that of the handler, which hears nothing any more.
        const server = net.createServer((client) => {
            others.add(client.on('error', () => {}));
            const through = net.connect(`${process.env.PGHOST}/.s.PGSQL.5432`).on('error', () => {});
            through.on('data', (data) => client.write(data));
            client.on('close', () => through.destroy()).on('data', (data) => {
                if (!data.includes('select of the handler')) return through.write(data);
                server.close();
                others.delete(client);
                through.destroy();
                for (const other of others) other.destroy();
            });
        });
        server.listen(0, '127.0.0.1', () => {
            const worker = new Worker([{ host: '127.0.0.1', port: server.address().port }, {}], 'work');
            worker.job('*', (run) => run.db.query('select of the handler').finally(() => {
                console.log('broken off');
                worker.stop();
            }));
            void worker.run();
        });";
    let (status, printed) = here.run("app", program, &[]);
    assert!(status.success() && printed.contains("broken off"), "{status}: {printed}");
}

/// Its attempt does not count, whatever their common statement raised.
#[test]
fn a_batch_of_which_one_is_cancelled_is_given_back() {
    let mut here = Setting::new();
    let ids = [here.enqueue("once", "{}"), here.enqueue("once", "{}")];
    let program = "
        const worker = new Worker({}, 'work', { batch: 2 });
        worker.batch('once', async (runs) => { if (runs.length > 1) await runs[0].db.query('select pg_sleep(600)'); });
        void worker.run();";
    let _program = here.start("app", program, &[]);
    wait_for(&mut here.db, "select count(*) > 0 from pg_stat_activity where wait_event = 'PgSleep'", SOON);
    here.db.execute(&format!("select sched.cancel('{}')", ids[0]), &[]).unwrap();
    here.waits_for(&ids[0], "status = 'CANCELLED'");
    here.waits_for(&ids[1], "status = 'SUCCESS' and attempt = 1");
}

/// The clock on the wall is set back by an hour while a run goes on for longer than its lease.
#[test]
fn heartbeats_go_by_no_clock_that_is_set() {
    let mut here = Setting::new();
    here.define_with_lease("2 s");
    let id = here.enqueue("short", "{}");
    let program = "
        const worker = new Worker({}, 'work').job('*', (run) => {
            const before = Date.now() - 3600e3;
            Date.now = () => before;
            return run.db.query('select pg_sleep(6)');
        });
        void worker.drain();";
    let (status, printed) = here.run("app", program, &[]);
    assert!(status.success(), "{status}: {printed}");
    here.waits_for(&id, "status = 'SUCCESS' and attempt = 1");
}

/// A slot that has seen one fail looks for the next at once.
#[test]
fn what_fails_keeps_nothing_waiting() {
    let mut here = Setting::new();
    for _ in 0..8 {
        here.enqueue("once", "{}");
    }
    let program = "
        const worker = new Worker({}, 'work', { pollMs: 3600e3 });
        worker.job('*', async () => { throw new Error('told to fail'); });
        void worker.run();";
    let _program = here.start("app", program, &[]);
    wait_for(&mut here.db, "select count(*) = 8 from sched.execution where status = 'FAILED'", SOON);
}
