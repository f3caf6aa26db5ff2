//! The TypeScript client in the process and behind the connection that it is given: signals, several workers, and a pooler.

use crate::clients_typescript::{ended, Setting};
use scheduler_cluster_tests::proc::{kill, Signal};
use scheduler_cluster_tests::scheduler::SOON;
use scheduler_cluster_tests::{conn, repository, wait_for, wait_until};
use std::fs;
use std::os::unix::fs::symlink;
use std::process::Command;
use std::time::{Duration, Instant};

/// Two workers, one of which has a handler that hears nothing. By default that takes less than the ten seconds of Docker.
#[test]
fn workers_of_a_process_share_signals() {
    for mode in ["run", "finish"] {
        let mut here = Setting::new();
        let mut app = here.cluster.connect_as("app", "postgres");
        app.batch_execute("select sched.define_job('mail', queue => 'mail')").unwrap();
        let ids = [here.enqueue("often", "{}"), here.enqueue("mail", "{}")];
        let program = "
            const deaf = new Worker({}, 'work', { transaction: words[0] }).job('*', () => new Promise((then) => setTimeout(then, 600e3)));
            const sleeps = new Worker({}, { queues: { mail: 2 } }).job('*', (run) => run.db.query('select pg_sleep(600)'));
            Promise.all([deaf.run(), sleeps.run()]).then(() => {
                console.log(`listeners: ${process.listenerCount('SIGTERM')}`);
                process.exit(0);
            });";
        let mut program = here.start("app", program, &[mode]);
        for id in &ids {
            here.waits_for(id, "status = 'RUNNING'");
        }
        let began = Instant::now();
        kill(program.pid(), Signal::TERM);
        let status = ended(&mut program);
        assert!(status.success() && program.printed() == "listeners: 0\n", "{mode}, {status}: {}", program.printed());
        assert!(began.elapsed() < Duration::from_secs(10), "{mode}: {:?}", began.elapsed());
        for id in &ids {
            here.waits_for(id, "status = 'PENDING' and attempt = 0");
        }
    }
}

#[test]
fn a_host_keeps_its_signals() {
    let mut here = Setting::new();
    let id = here.enqueue("often", "{}");
    let program = "
        const worker = new Worker({}, 'work', { handleSignals: false, graceMs: 100 }).job('*', (run) => run.db.query('select pg_sleep(600)'));
        process.on('SIGTERM', () => {
            console.log(`listeners: ${process.listenerCount('SIGTERM')}`);
            worker.stop();
        });
        worker.run().then(() => console.log('ended'));";
    let mut program = here.start("app", program, &[]);
    here.waits_for(&id, "status = 'RUNNING'");
    kill(program.pid(), Signal::TERM);
    assert!(ended(&mut program).success());
    assert_eq!(program.printed(), "listeners: 1\nended\n");
    here.waits_for(&id, "status = 'PENDING' and attempt = 0");
}

/// A way to the server that makes up the keys of its connections, as a pooler does, and loses notifications. It prints what none may send through it.
const POOLER: &str = r#"
    function pooler(then) {
        const net = require('node:net');
        const server = net.createServer((client) => {
            client.on('error', () => {});
            const through = net.connect(`${process.env.PGHOST}/.s.PGSQL.5432`).on('error', () => {});
            client.on('close', () => through.destroy()).on('data', (data) => {
                const bad = /DISCARD|"sched:|(?<!;)\bSET (?!LOCAL|TRANSACTION)|SESSION CHARACTERISTICS/.exec(data.toString('latin1'));
                if (bad) console.log(`not through a pooler: ${bad[0]}`);
                through.write(data);
            });
            let rest = Buffer.alloc(0);
            through.on('data', (data) => {
                rest = Buffer.concat([rest, data]);
                while (rest.length >= 5 && rest.length > rest.readUInt32BE(1)) {
                    const message = rest.subarray(0, rest.readUInt32BE(1) + 1);
                    rest = rest.subarray(message.length);
                    if (message[0] === 0x4b) message.writeUInt32BE(1, 5);
                    if (message[0] !== 0x41) client.write(message);
                }
            });
        });
        server.listen(0, '127.0.0.1', () => then({ host: '127.0.0.1', port: server.address().port }, () => server.unref()));
    }"#;

#[test]
fn behind_a_pooler_it_polls_and_says_so_once() {
    for way in ["polls", "listens"] {
        let mut here = Setting::new();
        let program = "
            pooler((there, done) => {
                const hooks = { warning: (message) => console.log(message.split(':')[0]), broken: (error) => console.log(error) };
                const options = words[0] === 'polls' ? {} : { listenDsn: () => new (require(`${process.env.CLIENT}/node_modules/pg`).Client)() };
                const worker = new Worker(there, 'work', { hooks, slots: 2, ...options }).job('*', (run) => run.db.query('select pg_sleep($1)', [run.payload.seconds ?? 0]).then(() => {}));
                worker.run().finally(done);
            });";
        let mut program = here.start("app", &format!("{POOLER}{program}"), &[way]);
        if way == "polls" {
            wait_until("the warning", SOON, || program.printed().contains("do not arrive").then_some(()));
        }
        for _ in 0..2 {
            let id = here.enqueue("once", "{}");
            here.waits_for(&id, "status = 'SUCCESS' and finished_at - created_at < interval '20 s'");
        }
        // Its heartbeats are so frequent that a cancel is heard long before a third of the lease.
        let cancelled = here.enqueue("once", r#"{"seconds": 600}"#);
        here.waits_for(&cancelled, "status = 'RUNNING'");
        here.db.execute(&format!("select sched.cancel('{cancelled}')"), &[]).unwrap();
        here.waits_for(&cancelled, "status = 'CANCELLED'");
        kill(program.pid(), Signal::TERM);
        let status = ended(&mut program);
        let expected = if way == "polls" { "notifications do not arrive\n" } else { "" };
        assert!(status.success() && program.printed() == expected, "{way}, {status}: {}", program.printed());
    }
}

/// As `make clients` packs it; it finds its dependency beside it, as npm would have installed it.
#[test]
fn the_package_has_what_it_exports() {
    let here = Setting::new();
    let folder = here.cluster.folder();
    let client = repository().join("clients/typescript");
    let succeeds = |command: &mut Command| {
        let output = command.output().expect("it can be started");
        assert!(output.status.success(), "{}", conn::text(&output));
        conn::text(&output)
    };
    succeeds(Command::new("npm").args(["pack", "--silent", "--pack-destination"]).arg(folder).current_dir(&client));
    let modules = folder.join("node_modules");
    fs::create_dir(&modules).expect("it can be made");
    for packed in fs::read_dir(client.join("node_modules")).expect("it is built").flatten() {
        symlink(packed.path(), modules.join(packed.file_name())).expect("it can be linked");
    }
    let unpack = format!(
        "tar -xzf {0}/pg-scheduler-*.tgz -C {0} && mv {0}/package {0}/node_modules/pg-scheduler",
        folder.display()
    );
    succeeds(Command::new("sh").args(["-c", &unpack]));
    let program = "const all = [require('pg-scheduler').Worker, require('pg-scheduler/testing').drain, require('pg-scheduler/dist/tracing.js').tracing];
        import('pg-scheduler').then(({ Snooze, enqueueMany }) => console.log(...[...all, Snooze, enqueueMany].map((each) => typeof each)));";
    let printed = succeeds(Command::new("node").args(["-e", program]).current_dir(folder));
    assert_eq!(printed.trim(), "function function function function function");
    assert!(!modules.join("pg-scheduler/dist/conformance.js").exists());
}

/// A way to the server on which the first statement of each kind meets a conflict.
const CONFLICTS: &str = r#"
    function conflicts(then) {
        const net = require('node:net');
        const left = new Set(['sched.claim(', 'sched.finish_success_many(', 'sched.finish_failure(', 'sched.heartbeat_many(', 'sched.snooze(']);
        const field = (kind, text) => Buffer.from(`${kind}${text}\0`);
        const message = (kind, body) => Buffer.concat([Buffer.from(kind), Buffer.from([0, 0, 0, body.length + 4]), body]);
        const server = net.createServer((client) => {
            client.on('error', () => {});
            const through = net.connect(`${process.env.PGHOST}/.s.PGSQL.5432`).on('error', () => {});
            through.on('data', (data) => client.write(data));
            client.on('close', () => through.destroy()).on('data', (data) => {
                const text = data.toString('latin1');
                const kind = [...left].find((word) => text.includes(word));
                if (kind === undefined) return through.write(data);
                left.delete(kind);
                console.log(kind);
                const error = Buffer.concat([field('S', 'ERROR'), field('V', 'ERROR'), field('C', kind === 'sched.claim(' ? '40P01' : '40001'), field('M', 'a conflict'), Buffer.from([0])]);
                client.write(Buffer.concat([message('E', error), message('Z', Buffer.from('E'))]));
            });
        });
        server.listen(0, '127.0.0.1', () => then({ host: '127.0.0.1', port: server.address().port }, () => server.unref()));
    }"#;

/// The library's own statements are repeated. Where that is the end of a transaction, its handler is called again, in the same attempt.
#[test]
fn conflicts_of_own_statements_cost_no_attempt() {
    for mode in ["run", "finish"] {
        let mut here = Setting::new();
        here.define_with_lease("2 s");
        let ids = ["short", "often", "once"].map(|job| here.enqueue(job, &format!(r#"{{"job": "{job}"}}"#)));
        let program = "
            conflicts((there, done) => {
                const hooks = { broken: (error) => console.log('broken', error), lost: () => console.log('lost') };
                const worker = new Worker(there, 'work', { hooks, transaction: words[0] });
                worker.job('short', () => new Promise((then) => setTimeout(then, 2500)));
                worker.job('often', async () => { throw new Snooze(3600); });
                worker.job('once', async () => { throw new Error('told to fail'); });
                worker.run().finally(done);
            });";
        let mut program = here.start("app", &format!("{CONFLICTS}{program}"), &[mode]);
        for (id, expected) in
            ids.iter().zip(["status = 'SUCCESS' and attempt = 1", "attempt = 0", "status = 'FAILED' and attempt = 1"])
        {
            here.waits_for(id, expected);
        }
        kill(program.pid(), Signal::TERM);
        let status = ended(&mut program);
        let mut met: Vec<String> = program.printed().lines().map(str::to_owned).collect();
        met.sort();
        let expected = ["claim", "finish_failure", "finish_success_many", "heartbeat_many", "snooze"]
            .map(|kind| format!("sched.{kind}("));
        assert!(status.success() && met == expected, "{mode}, {status}: {}", program.printed());
    }
}

/// The answer to a claim is on its way while the run is cancelled already.
#[test]
fn a_cancel_is_heard_before_its_claim() {
    let mut here = Setting::new();
    let program = "
        const net = require('node:net');
        const server = net.createServer((client) => {
            let isLate = false;
            client.on('error', () => {});
            const through = net.connect(`${process.env.PGHOST}/.s.PGSQL.5432`).on('error', () => {});
            through.on('data', (data) => (isLate ? setTimeout(() => client.write(data), 2000) : client.write(data)));
            client.on('close', () => through.destroy()).on('data', (data) => {
                isLate = data.includes('sched.claim(');
                through.write(data);
            });
        });
        server.listen(0, '127.0.0.1', () => {
            const worker = new Worker({ host: '127.0.0.1', port: server.address().port }, 'work', { listenDsn: {} });
            worker.job('*', (run) => run.db.query('select pg_sleep(600)'));
            worker.run().finally(() => server.unref());
        });";
    let mut program = here.start("app", program, &[]);
    wait_for(&mut here.db, "select count(*) > 0 from pg_stat_activity where query like 'LISTEN%sched:cancel%'", SOON);
    let cancelled = here.enqueue("once", "{}");
    here.waits_for(&cancelled, "status = 'RUNNING'");
    here.db.execute(&format!("select sched.cancel('{cancelled}')"), &[]).unwrap();
    here.waits_for(&cancelled, "status = 'CANCELLED'");
    kill(program.pid(), Signal::TERM);
    let status = ended(&mut program);
    assert!(status.success(), "{status}: {}", program.printed());
}
