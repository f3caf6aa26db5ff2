"""SQL jobs: commands that the server runs itself, beside pg_cron in both of its modes. fsync is on: every run is a commit of each.

When a command began is what its own first clock_timestamp() says. pg_cron knows full minutes only, so it is asked few times."""

import time

import lateness
from board import OURS, Unable, why
from goals import BUSY, CRON_CONNECTIONS, CRON_WORKERS, DEFAULT, FRESH

AT_ONCE = {
    "runs a second": ("runs per second", "rate", True), "started within 61 s": ("runs", "started", True),
}
# As many at once as pg_cron has by default, or in background workers as its documentation advises: on a disk that takes long for a commit
# the number of those who wait for it together decides.
MANY = {"sched.max_sql_runners": "32", "sched.max_sql_runners_per_role": "32", "max_worker_processes": "48"}
ROWS = 10_000_000
# both at once: rows that nobody keeps, and messages of which a part is kept
LARGE = f"""DO $$ BEGIN FOR i IN 1..10000 LOOP RAISE NOTICE '%', repeat('x', 100); END LOOP; END $$;
SELECT generate_series(1, {ROWS})"""


def measure(server, board, quick):
    """Adds the cases of this section to the board. One round: pg_cron waits for minutes, and a disk is a disk."""
    count = 1_000 if quick else 10_000
    board.several("sql", f"{count:,} SELECT 1 due at once", {
        OURS: lambda: at_once(server, count, **MANY),
        DEFAULT: lambda: at_once(server, count),
        CRON_WORKERS: lambda: cron_at_once(server, count, background=True),
        CRON_CONNECTIONS: lambda: cron_at_once(server, count, background=False),
    }, AT_ONCE, rounds=1)
    jobs = 60 if quick else 200
    peers = {} if quick else {
        CRON_WORKERS: lambda: cron_start(server, background=True), CRON_CONNECTIONS: lambda: cron_start(server, background=False),
    }
    board.several("sql", f"from plan time to the command, {jobs} at intervals of 100 ms", {
        OURS: lambda: start(server, jobs), FRESH: lambda: start(server, jobs, **{"sched.runner_idle": "0"}), **peers,
    }, lateness.MEASURES, rounds=1, unable={
        name: "fires at full minutes only, for which a quick run does not wait" for name in (CRON_WORKERS, CRON_CONNECTIONS) if quick
    })
    board.compare("sql", f"growth of a runner in a SELECT of {ROWS:,} rows and 1 MB of notices", "MB", {
        OURS: lambda: growth(server),
    }, rounds=1, more_is_better=False)
    seconds = 3 if quick else 10
    board.several("sql", f"1,000 fires a second of other jobs for {seconds} s", {
        OURS: lambda: beside(server, seconds, busy=False), BUSY: lambda: beside(server, seconds, busy=True),
    }, lateness.MEASURES, rounds=1)
    server.start()


def begin(server, **settings):
    """A database of SQL jobs, with default settings but for these."""
    server.start("scheduler", fsync="on", **settings)
    server.database("runs", "CREATE EXTENSION scheduler", "SELECT sched.grant_use('app')")


def define(connection, command):
    connection.execute("SELECT sched.define_job('job', kind => 'sql', command => %s, queue => 'default')", [command])


def armed(server, command, count, step):
    """`count` schedules of one run each, `step` seconds apart; they are armed before the first is due."""
    with server.connect("runs", "app") as connection:
        define(connection, command)
    with server.connect("runs") as connection:
        for longer in (1, 3, 9):  # for a machine that is slow at the moment
            connection.execute("DELETE FROM sched.schedule")
            first = connection.execute("SELECT clock_timestamp() + %s * interval '1 second'", [longer * (4 + count / 1_000)]).fetchone()[0]
            connection.execute("SET ROLE app")
            connection.execute(
                "SELECT count(sched.create_schedule('s' || i, 'at ' || (%s::timestamptz + i * %s * interval '1 second'), 'job'))"
                "  FROM generate_series(0, %s - 1) AS i", [first, step, count])
            connection.execute("RESET ROLE")
            server.wait(connection, "SELECT NOT EXISTS (SELECT FROM sched.schedule_change)", 90)
            connection.execute("VACUUM ANALYZE sched.timer, sched.schedule")
            connection.execute("CHECKPOINT")
            if connection.execute("SELECT clock_timestamp() + interval '1 second' < %s", [first]).fetchone()[0]:
                return
    raise Unable("arming took longer than planned for")


def ended(server, count, seconds):
    """Waits until all runs have ended; each has succeeded."""
    with server.connect("runs") as connection:
        server.wait(connection, f"SELECT count(*) >= {count} FROM sched.ledger WHERE finished_at IS NOT NULL", seconds)
        failed = connection.execute("SELECT error_msg FROM sched.ledger WHERE status <> 'SUCCESS' LIMIT 1").fetchone()
        if failed:
            raise RuntimeError(f"a run failed: {failed[0]}")


def at_once(server, count, **settings):
    begin(server, **settings)
    armed(server, "SELECT 1", count, 0)
    ended(server, count, 300)
    rate, started = server.sql(
        "runs", "SELECT count(*) / EXTRACT(epoch FROM max(finished_at) - min(plan_time))::float8,"
        "              count(*) FILTER (WHERE started_at < plan_time + interval '61 seconds') FROM sched.ledger")[0]
    return {"rate": rate, "started": started}


def start(server, count, **settings):
    begin(server, **settings)
    armed(server, "SELECT clock_timestamp()", count, 0.1)
    # brings the process that the others find, where it may wait for them
    server.sql("runs", "SELECT sched.enqueue('job')")
    ended(server, count + 1, count * 0.1 + 60)
    late = server.sql("runs", "SELECT EXTRACT(epoch FROM (result->'rows'->0->>0)::timestamptz - plan_time)::float8 FROM sched.ledger"
                      " WHERE schedule_name IS NOT NULL ORDER BY 1")
    if len(late) != count:
        raise RuntimeError(f"{len(late)} of {count} ran")
    return lateness.percentiles([value for (value,) in late])


def growth(server):
    """By how many MB the private memory of a runner grows at most."""
    begin(server)
    with server.connect("runs", "app") as connection:
        define(connection, "SELECT 1")
        connection.execute("SELECT sched.enqueue('job')")
        server.wait(connection, "SELECT count(*) = 1 FROM sched.execution WHERE status = 'SUCCESS'", 30)
        pid = connection.execute("SELECT substr(runner_id, 5)::int FROM sched.execution").fetchone()[0]
        before = most = private(pid)
        define(connection, LARGE)
        connection.execute("SELECT sched.enqueue('job')")
        end = time.monotonic() + 180
        while connection.execute("SELECT count(*) < 2 FROM sched.execution WHERE finished_at IS NOT NULL").fetchone()[0]:
            if time.monotonic() > end:
                raise Unable("the run did not end")
            most = max(most, private(pid))
            time.sleep(0.02)
        status, runner, rows = connection.execute(
            "SELECT status, substr(runner_id, 5)::int, rows_affected FROM sched.execution ORDER BY created_at DESC LIMIT 1").fetchone()
    if (status, runner, rows) != ("SUCCESS", pid, ROWS):
        raise RuntimeError(f"{status}, {rows} rows, process {runner} after {pid}")
    return (most - before) / 1e6


def private(pid):
    """Bytes of a process that are in no file and shared with nobody."""
    with open(f"/proc/{pid}/status") as status:
        return next(int(line.split()[1]) * 1024 for line in status if line.startswith("RssAnon"))


def beside(server, seconds, *, busy):
    """How late other jobs are in one database, while all runners are at work in another, or none is."""
    begin(server)
    if busy:
        with server.connect("runs", "app") as connection:
            define(connection, "SELECT pg_sleep(120)")
            connection.execute("SELECT sched.enqueue_many('job', array_fill('{}'::jsonb, ARRAY[16]))")
            server.wait(connection, "SELECT count(*) = 4 FROM sched.running", 30)
    found = lateness.steady(server, 1_000, seconds)
    if busy and server.sql("runs", "SELECT count(*) FROM sched.running") != [(4,)]:
        raise Unable("not all runners were busy all the time")
    return found


def cron(server, background):
    """A server with pg_cron, as its documentation sets it up for many jobs at once."""
    try:
        # made anew while no launcher is connected to it: one that was terminated does not come back
        server.start()
        server.database("cron")
        server.start("pg_cron", **{
            "fsync": "on", "cron.database_name": "'cron'", "cron.use_background_workers": "on" if background else "off",
            "cron.max_running_jobs": "32", "max_worker_processes": "48", "cron.host": f"'{server.folder}'",
        })
        server.sql("cron", "CREATE EXTENSION pg_cron; CREATE TABLE started (at timestamptz)")
    except Exception as error:  # noqa: BLE001 - whatever keeps it from starting is the reason
        raise Unable(f"does not start here: {why(error)}") from None


def minute(connection, lead):
    """A full minute that begins in `lead` seconds at the earliest, and its crontab."""
    return connection.execute(
        "SELECT m, to_char(m AT TIME ZONE 'GMT', 'FMMI FMHH24 * * *')"
        "  FROM date_trunc('minute', clock_timestamp() + %s * interval '1 second' + interval '1 minute') AS m", [lead]).fetchone()


def cron_at_once(server, count, *, background):
    cron(server, background)
    with server.connect("cron") as connection:
        due, clock = minute(connection, 5 + count / 2_000)
        connection.execute("SELECT count(cron.schedule('s' || i, %s, 'SELECT 1')) FROM generate_series(1, %s) AS i", [clock, count])
        server.wait(connection, "SELECT EXISTS (SELECT FROM cron.job_run_details)", 80 + count / 2_000)
        # those that it has left out by then are as late as can be
        server.wait(connection, f"SELECT clock_timestamp() > '{due}'::timestamptz + interval '70 seconds' OR"
                    f" count(*) >= {count} FROM cron.job_run_details WHERE status IN ('succeeded', 'failed')", 90)
        done, took, started, failed = connection.execute(
            "SELECT count(*) FILTER (WHERE status = 'succeeded'), EXTRACT(epoch FROM max(end_time) - %(due)s)::float8,"
            "       count(*) FILTER (WHERE start_time < %(due)s + interval '61 seconds'),"
            "       min(return_message) FILTER (WHERE status = 'failed') FROM cron.job_run_details", {"due": due}).fetchone()
        if not done:
            raise Unable(f"no run succeeded: {failed}")
        return {"rate": done / took, "started": started}


def cron_start(server, *, background, times=2):
    cron(server, background)
    with server.connect("cron") as connection:
        connection.execute("SELECT cron.schedule('s', '* * * * *', 'INSERT INTO started VALUES (clock_timestamp())')")
        server.wait(connection, f"SELECT count(*) >= {times} FROM started", 60 * times + 30)
        late = connection.execute("SELECT EXTRACT(epoch FROM at - date_trunc('minute', at))::float8 FROM started ORDER BY 1").fetchall()
    return lateness.percentiles([value for (value,) in late])
