"""Three nodes under Patroni and etcd, under load, through switchovers and kills: nothing that was acknowledged is lost, no plan time is
missing or doubled. Patroni's configuration is the one of docs/operations/high-availability.md.

failover.py PAGE FOLDER BIN ETCD [SWITCHOVERS KILLS NODES]      prints what it saw; ends with 0 where all of it held"""

import base64
import json
import os
import pathlib
import random
import re
import shutil
import signal
import socket
import subprocess
import sys
import threading
import time
import urllib.request

import psycopg

PAGE, FOLDER, BIN, ETCD = (pathlib.Path(argument) for argument in sys.argv[1:5])
SWITCHOVERS, KILLS, NODE_KILLS = (int(argument) for argument in sys.argv[5:8]) if len(sys.argv) > 5 else (4, 3, 3)
SCHEDULES = 200
PATIENCE = 120.0
FIRST_FIRE = 2.0


def free_port():
    with socket.socket() as sock:
        sock.bind(("127.0.0.1", 0))
        return sock.getsockname()[1]


class Program:
    """A process group that does not outlive this one."""

    def __init__(self, name, *command):
        self.log = open(FOLDER / f"{name}.log", "ab")
        self.process = subprocess.Popen(command, stdout=self.log, stderr=self.log, stdin=subprocess.DEVNULL, start_new_session=True)

    def signal(self, number):
        try:
            os.killpg(self.process.pid, number)
        except ProcessLookupError:
            pass

    def end(self):
        self.signal(signal.SIGKILL)
        self.process.wait()


class Node:
    def __init__(self, number, etcd):
        self.name = f"node{number}"
        self.port, self.rest = free_port(), free_port()
        self.data = FOLDER / self.name
        text = re.search(r"```yaml patroni\n(.*?)```", PAGE.read_text(), re.S).group(1)
        for one, other in (
            ("name: node1", f"name: {self.name}"), ("10.0.0.1:8008", f"127.0.0.1:{self.rest}"), ("10.0.0.1:5432", f"127.0.0.1:{self.port}"),
            ("10.0.0.9:2379", f"127.0.0.1:{etcd}"), ("/var/lib/postgresql/15/main", str(self.data)), ("/usr/lib/postgresql/15/bin", str(BIN)),
            ("10.0.0.0/24", "127.0.0.1/32"), ("/run/postgresql", str(FOLDER)),
        ):
            assert one in text, f"the page's configuration has no {one}"
            text = text.replace(one, other)
        self.config = FOLDER / f"{self.name}.yml"
        self.config.write_text(text)
        self.program = None

    def start(self):
        self.program = Program(self.name, sys.executable, "-m", "patroni", str(self.config))

    def postmaster(self):
        try:
            return int((self.data / "postmaster.pid").read_text().split("\n")[0])
        except (OSError, ValueError):
            return None

    def kill_postgres(self):
        """As a crash of the server: the postmaster and every process of it."""
        pid = self.postmaster()
        children = subprocess.run(["ps", "-o", "pid=", "--ppid", str(pid)], capture_output=True, text=True, check=False).stdout.split()
        for number in [pid, *map(int, children)]:
            try:
                os.kill(number, signal.SIGKILL)
            except ProcessLookupError:
                pass

    def kill(self):
        """As a machine that loses power."""
        self.program.end()
        if self.postmaster():
            self.kill_postgres()

    def state(self):
        try:
            with urllib.request.urlopen(f"http://127.0.0.1:{self.rest}/patroni", timeout=2) as answer:
                return json.load(answer)
        except urllib.error.HTTPError as error:
            return json.load(error)
        except OSError:
            return {}


def wait_until(what, look, patience=PATIENCE):
    until = time.monotonic() + patience
    while not (found := look()):
        if time.monotonic() > until:
            raise SystemExit(f"waited {patience:.0f} s in vain for {what}")
        time.sleep(0.1)
    return found


class Load:
    """Producers, workers and a watcher, each on connections that find the primary. What was acknowledged is remembered."""

    def __init__(self, dsn):
        self.dsn, self.over, self.threads = dsn, threading.Event(), []
        self.enqueued, self.finished, self.refused = [], [], 0
        self.promotions = []

    def start(self):
        for part in (self.produce, self.produce, self.work, self.work, self.work):
            thread = threading.Thread(target=self.forever, args=(part,), daemon=True)
            thread.start()
            self.threads.append(thread)

    def stop(self):
        self.over.set()
        for thread in self.threads:
            thread.join(30)

    def forever(self, part):
        while not self.over.is_set():
            try:
                with psycopg.connect(self.dsn, connect_timeout=3, autocommit=True) as db:
                    while not self.over.is_set():
                        part(db)
            except psycopg.Error:
                self.refused += 1
                time.sleep(0.05)

    def produce(self, db):
        job = random.choice(["work", "work", "sql"])
        delay = random.choice(["NULL", "now() + interval '2 s'"])
        row = db.execute(f"SELECT sched.enqueue('{job}', run_at => {delay})").fetchone()
        self.enqueued.append((row[0], job))
        time.sleep(0.01)

    def work(self, db):
        row = db.execute("SELECT execution_id, lease_token FROM sched.claim('work')").fetchone()
        if row is None:
            return time.sleep(0.02)
        with db.transaction():
            db.execute("INSERT INTO effect (id) VALUES (%s)", (row[0],))
            db.execute("SELECT sched.finish_success(%s, %s)", row)
        self.finished.append(row[0])


def first_fire(dsn, before):
    """How long after a server took writes, on a later timeline, it fired a schedule; both by its own clock."""
    until = time.monotonic() + PATIENCE
    while time.monotonic() < until:
        try:
            with psycopg.connect(dsn, connect_timeout=2, autocommit=True) as db:
                now, timeline = db.execute("SELECT clock_timestamp(), timeline_id FROM pg_control_checkpoint()").fetchone()
                started = db.execute("SELECT pg_postmaster_start_time()").fetchone()[0]
                if (timeline, started) == before:
                    time.sleep(0.02)
                    continue
                fired = "SELECT min(created_at) FROM sched.ledger WHERE origin = 'schedule' AND created_at > %s"
                at = wait_until("a first fire", lambda: db.execute(fired, (now,)).fetchone()[0], 30)
                return (at - now).total_seconds()
        except psycopg.Error:
            time.sleep(0.02)
    raise SystemExit(f"waited {PATIENCE:.0f} s in vain for a server that takes writes")


def primary_of(nodes):
    return next((node for node in nodes if node.state().get("role") in ("primary", "master")), None)


def synchronous(etcd):
    """The standby that may be promoted, as etcd has it: what a node says of that may be seconds old, and without one none takes over."""
    key = base64.b64encode(b"/service/app/sync").decode()
    request = urllib.request.Request(f"http://127.0.0.1:{etcd}/v3/kv/range", json.dumps({"key": key}).encode())
    with urllib.request.urlopen(request, timeout=5) as answer:
        found = json.load(answer).get("kvs", [])
    return json.loads(base64.b64decode(found[0]["value"]))["sync_standby"] if found else None


def settled(nodes, etcd):
    """One primary, and all others stream from it; a synchronous one among them."""
    states = [node.state() for node in nodes]
    standbys = [state for state in states if state.get("role") in ("replica", "standby", "sync_standby") and state.get("state") in ("running", "streaming")
                and state.get("replication_state") == "streaming"]
    return len(standbys) == len(nodes) - 1 and primary_of(nodes) is not None and synchronous(etcd) is not None


def dispatchers(node):
    with psycopg.connect(f"host=127.0.0.1 port={node.port} user=postgres password=secret dbname=postgres", autocommit=True) as db:
        return db.execute("SELECT count(*) FROM pg_stat_activity WHERE backend_type = 'scheduler dispatcher'").fetchone()[0]


def main():
    etcd_port, peer_port = free_port(), free_port()
    urls = f"http://127.0.0.1:{etcd_port}", f"http://127.0.0.1:{peer_port}"
    etcd = Program("etcd", str(ETCD), "--data-dir", str(FOLDER / "etcd"), "--listen-client-urls", urls[0], "--advertise-client-urls", urls[0],
                   "--listen-peer-urls", urls[1], "--initial-advertise-peer-urls", urls[1], "--initial-cluster", f"default={urls[1]}")
    nodes = [Node(number, etcd_port) for number in (1, 2, 3)]
    load = None
    try:
        for node in nodes:
            node.start()
        wait_until("the cluster", lambda: settled(nodes, etcd_port))
        hosts = ",".join("127.0.0.1" for _ in nodes), ",".join(str(node.port) for node in nodes)
        dsn = f"host={hosts[0]} port={hosts[1]} user=postgres password=secret dbname=postgres target_session_attrs=read-write"
        with psycopg.connect(dsn, autocommit=True) as db:
            db.execute("CREATE EXTENSION scheduler")
            db.execute("CREATE TABLE effect (id uuid NOT NULL, at timestamptz NOT NULL DEFAULT clock_timestamp())")
            db.execute("SELECT sched.define_job('work', queue => 'work', max_attempts => 1000, retry_backoff => '{}', stale_timeout => '5 s')")
            db.execute("SELECT sched.define_job('sql', 'sql', 'INSERT INTO effect SELECT execution_id FROM sched.this_run()', max_attempts => 1000)")
            db.execute("SELECT sched.define_job('tick', 'notify', 'tick'), sched.define_job('bad', 'sql', 'SELECT 1/0')")
            db.execute("SELECT sched.create_schedule('s' || i, 'every 1 second', 'tick', catch_up => 'every_plan', max_plans_per_tick => 1000)"
                       f" FROM generate_series(1, {SCHEDULES}) AS i")
            db.execute("SELECT sched.create_schedule('bad', 'every 1 second', 'bad')")
            wait_until("an alert", lambda: db.execute("SELECT count(*) FROM sched.alerts WHERE resolved_at IS NULL").fetchone()[0])
        load = Load(dsn)
        load.start()
        events = ["switchover"] * SWITCHOVERS + ["postgres killed"] * KILLS + ["node killed"] * NODE_KILLS
        random.shuffle(events)
        late = []
        for number, event in enumerate(events, 1):
            wait_until("all nodes to be back", lambda: settled(nodes, etcd_port))
            time.sleep(2)  # of load
            leader = primary_of(nodes)
            with psycopg.connect(dsn, autocommit=True) as db:
                before = db.execute("SELECT timeline_id, pg_postmaster_start_time() FROM pg_control_checkpoint()").fetchone()
            began, acknowledged = time.monotonic(), len(load.finished)
            if event == "switchover":
                body = json.dumps({"leader": leader.name, "candidate": synchronous(etcd_port)}).encode()
                request = urllib.request.Request(f"http://127.0.0.1:{leader.rest}/switchover", body, {"Content-Type": "application/json"})
                urllib.request.urlopen(request, timeout=60).read()
            elif event == "postgres killed":
                leader.kill_postgres()
            else:
                leader.kill()
            took = first_fire(dsn, before)
            late.append(took)
            wait_until("work to go on", lambda: len(load.finished) > acknowledged + 20)
            if event == "node killed":
                leader.start()
            print(f"{number:2} {event:16} after {time.monotonic() - began:5.1f} s of it work goes on; first fire {took * 1000:.0f} ms after writes", flush=True)
        wait_until("all nodes to be back", lambda: settled(nodes, etcd_port))
        load.stop()
        check(load, dsn, nodes, late, len(events))
    finally:
        if load:
            load.over.set()
        for node in nodes:
            if node.program:
                node.kill()
        etcd.end()


def check(load, dsn, nodes, late, events):
    standbys = [node for node in nodes if node is not primary_of(nodes)]
    assert all(dispatchers(node) == 0 for node in standbys), "a standby has a dispatcher"
    with psycopg.connect(dsn, autocommit=True) as db:
        def one(query, *arguments):
            return db.execute(query, arguments).fetchone()[0]
        with psycopg.connect(dsn, autocommit=True) as worker:
            while one("SELECT count(*) FROM sched.ledger WHERE job_name IN ('work', 'sql') AND status <> 'SUCCESS'"):
                load.work(worker)
        ids = [execution for execution, _ in load.enqueued]
        lost = one("SELECT count(*) FROM unnest(%s::uuid[]) AS id WHERE NOT EXISTS (SELECT FROM sched.ledger l WHERE l.id = id.id)", ids)
        undone = one("SELECT count(*) FROM unnest(%s::uuid[]) AS id WHERE NOT EXISTS (SELECT FROM effect e WHERE e.id = id.id)", ids + load.finished)
        doubled = one("SELECT count(*) FROM (SELECT FROM effect GROUP BY id HAVING count(*) > 1) AS d")
        without = one("SELECT count(*) FROM effect e WHERE NOT EXISTS (SELECT FROM sched.ledger l WHERE l.id = e.id AND l.status = 'SUCCESS')")
        db.execute("SELECT sched.pause('s' || i) FROM generate_series(1, %s) AS i", (SCHEDULES,))
        wrong = db.execute(
            "SELECT schedule_name, count(*), count(DISTINCT plan_time), extract(epoch FROM max(plan_time) - min(plan_time)) + 1 FROM sched.execution"
            " WHERE job_name = 'tick' GROUP BY 1 HAVING count(*) <> count(DISTINCT plan_time) OR count(*) <> extract(epoch FROM max(plan_time) - min(plan_time)) + 1"
        ).fetchall()
        schedules, newest = db.execute("SELECT count(DISTINCT schedule_name), now() - min(newest) FROM (SELECT schedule_name, max(plan_time) AS newest"
                                       " FROM sched.execution WHERE job_name = 'tick' GROUP BY 1) AS s").fetchone()
        alerts = one("SELECT count(*) FROM sched.alerts WHERE schedule_name = 'bad' AND resolved_at IS NULL")
        print(f"{events} of {events}: {len(load.enqueued)} enqueues, {len(load.finished)} finishes acknowledged, {load.refused} connections broke; "
              f"lost {lost}, without effect {undone}, doubled {doubled}, effects without success {without}; "
              f"schedules with missing or doubled plan times {len(wrong)} of {schedules}; first fire at most {max(late):.2f} s", flush=True)
        assert (lost, undone, doubled, without, wrong) == (0, 0, 0, 0, []), wrong
        assert schedules == SCHEDULES and newest.total_seconds() < 10, f"{schedules} schedules, the last plan {newest} ago"
        assert max(late) < FIRST_FIRE, f"a first fire came {max(late):.2f} s after the server took writes"
        assert alerts == 1, f"{alerts} open alerts"


def parent_gone(parent=os.getppid()):
    while os.getppid() == parent:
        time.sleep(0.5)
    os.kill(os.getpid(), signal.SIGTERM)


if __name__ == "__main__":
    signal.signal(signal.SIGTERM, lambda *_: sys.exit("the test has ended"))
    threading.Thread(target=parent_gone, daemon=True).start()
    main()
