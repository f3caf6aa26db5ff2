"""Schedules that are due at once: from the due instant until the last execution can be seen, against the physical limit (the
same rows written by set-based SQL that is given every decision), the row-by-row dispatcher in Python, and pg_cron."""

import datetime
import pathlib
import time

from board import OURS, Unable

HERE = pathlib.Path(__file__).parent
LIMIT, ROWS, CRON = "physical limit (set-based SQL)", "row-by-row dispatcher (Python)", "pg_cron"
BATCH = 1000  # the default of sched.batch_size
LONGEST_ROW_BY_ROW = 5_000  # its rate does not depend on how many more there are
CRON_JOBS = 1_000


def measure(server, board, quick):
    """Adds the cases of this section to the board."""
    server.start()
    server.database("ours", (HERE / "sql/ours.sql").read_text())
    server.database("physical", "CREATE EXTENSION scheduler", (HERE / "sql/limit.sql").read_text())
    server.database("rows", (HERE / "sql/rows.sql").read_text())
    for count in (1_000, 10_000) if quick else (1_000, 10_000, 100_000):
        board.compare("firing", f"{count:,} due at once", "fires per second", {
            OURS: lambda: ours(server, count),
            LIMIT: lambda: limit(server, count),
            ROWS: lambda: rows(server, min(count, 1_000 if quick else LONGEST_ROW_BY_ROW)),
        }, group="due at once")
    # what each row's own commit costs on this machine's disk
    server.set(fsync="on")
    board.compare("firing", "10,000 due at once, fsync on", "fires per second", {
        OURS: lambda: ours(server, 10_000),
        LIMIT: lambda: limit(server, 10_000),
        ROWS: lambda: rows(server, 500),
    }, group="fsync on")
    server.set(fsync="off")
    if not quick:
        board.compare("firing", f"pg_cron: {CRON_JOBS:,} due at once", "fires per second", {
            CRON: lambda: cron(server, CRON_JOBS),
        }, rounds=1, group="pg_cron")
        server.start()


def schedules(server, count, clock, *, first, step):
    """Replaces all schedules by `count` new ones; clock is a text with {} for the instant, `step` apart from `first` on."""
    server.sql("ours", "TRUNCATE sched.schedule, sched.schedule_change, sched.timer, sched.ledger, sched.ready, sched.retry,"
               " sched.lease, sched.awaited, sched.skip, sched.schedule_past, sched.timer_memory")
    with server.connect("ours", "postgres") as connection:
        # what create_schedule writes, for all at once
        connection.execute(
            """INSERT INTO sched.schedule (schedule_name, clock, time_zone, job_name, payload, scope_kind, scope_id, catch_up,
                                           max_plans_per_tick, rearm, overlap, delay, jitter, ownership, enabled,
                                           created_at, baseline_at, updated_at, since_at)
               SELECT 's' || i, replace(%s, '{}', (%s::timestamptz + i * %s::interval)::text), 'UTC', 'bench', '{"n": 1}',
                      'schedule', 's' || i, 'latest_only', 100, 'on_dispatch', 'allow', '0', '0', 'owned', true,
                      clock_timestamp(), clock_timestamp(), clock_timestamp(), clock_timestamp()
                 FROM generate_series(0, %s - 1) AS i""",
            (clock, first, step, count),
        )
        wait(connection, "SELECT NOT EXISTS (SELECT FROM sched.schedule_change)", 90)
        connection.execute("VACUUM ANALYZE sched.timer, sched.schedule")
        connection.execute("CHECKPOINT")


def wait(connection, question, seconds):
    """Until the question is answered with true."""
    end = time.monotonic() + seconds
    while not connection.execute(question).fetchone()[0]:
        if time.monotonic() > end:
            raise Unable(f"not after {seconds} s: {question}")
        time.sleep(0.004)


def instant(server, seconds):
    return server.sql("postgres", "SELECT clock_timestamp() + %s * interval '1 second'", seconds)[0][0]


def ours(server, count):
    # long enough to be armed before it comes
    due = instant(server, 4 + count / 4_000)
    schedules(server, count, "every 1 day from {}", first=due, step="0")
    if instant(server, 0) > due:
        raise Unable("arming took longer than planned for")
    before = server.cpu(), server.wal()
    with server.connect("ours") as connection:
        cursor = connection.execute("SELECT greatest(0, EXTRACT(epoch FROM %s - clock_timestamp()))::float8 - 0.05", [due])
        time.sleep(max(0, cursor.fetchone()[0]))
        connection.prepare_threshold = 0
        # one index probe, every 4 ms: it sees what is committed
        wait(connection, f"SELECT NOT EXISTS (SELECT FROM sched.timer WHERE fire_at <= '{due}')", 600)
        took, fired = connection.execute(
            "SELECT EXTRACT(epoch FROM clock_timestamp() - %s)::float8, (SELECT count(*) FROM sched.ledger)", [due]
        ).fetchone()
    if fired != count:
        raise RuntimeError(f"{fired} of {count} fired")
    return {
        "value": count / took, "cpu": (server.cpu() - before[0]) * 1e6 / count, "wal": (server.wal() - before[1]) / count,
    }


def limit(server, count):
    with server.connect("physical") as connection:
        connection.execute("CALL physical.prepare(%s, %s)", [count, BATCH])
        connection.execute("VACUUM ANALYZE physical.timer, physical.decision")
        connection.execute("CHECKPOINT")
        before = server.cpu(), server.wal()
        started = time.monotonic()
        connection.execute("CALL physical.fire()")
        took = time.monotonic() - started
    return {
        "value": count / took, "cpu": (server.cpu() - before[0]) * 1e6 / count, "wal": (server.wal() - before[1]) / count,
    }


def rows(server, count):
    """Scan, then for each row one transaction with the insert and the advance: what a periodic-schedule table is driven by."""
    server.sql("rows", "TRUNCATE periodic, message")
    server.sql("rows", "INSERT INTO periodic SELECT 's' || i, true, 'UTC', '* * * * *', '{\"n\": 1}', clock_timestamp()"
               " FROM generate_series(1, %s) AS i", count)
    server.sql("rows", "VACUUM ANALYZE periodic")
    server.settled()
    with server.connect("rows", "app") as connection:
        connection.prepare_threshold = 0
        before = server.cpu(), server.wal()
        started = time.monotonic()
        due = connection.execute(
            "SELECT name, payload, next_run_at FROM periodic WHERE owned AND next_run_at <= clock_timestamp() ORDER BY next_run_at"
        ).fetchall()
        for name, payload, plan in due:
            following = plan + datetime.timedelta(minutes=1)  # a cron library would take some more time
            with connection.transaction():
                connection.execute("INSERT INTO message (queue, name, payload, plan_time, priority)"
                                   " VALUES ('scheduler', %s, %s::jsonb, %s, 5)", [name, '{"n": 1}', plan])
                connection.execute("UPDATE periodic SET last_run_at = %s, next_run_at = %s WHERE name = %s",
                                   [plan, following, name])
        took = time.monotonic() - started
    return {"value": count / took, "wal": (server.wal() - before[1]) / count, "cpu": (server.cpu() - before[0]) * 1e6 / count}


def cron(server, jobs):
    """pg_cron with background workers (its documentation: no connection set-up, as many jobs at once as there are workers). It
    fires at full minutes only, so that a round waits for one."""
    try:
        server.start("pg_cron", **{"cron.database_name": "'cron'", "cron.use_background_workers": "on",
                                   "cron.max_running_jobs": "32", "max_worker_processes": "48"})
        server.database("cron", "CREATE EXTENSION pg_cron")
    except Exception as error:  # noqa: BLE001 - whatever keeps it from starting is the reason
        raise Unable(f"does not start here: {error}") from None
    with server.connect("cron") as connection:
        second = connection.execute("SELECT EXTRACT(second FROM clock_timestamp())::float8").fetchone()[0]
        if second > 45:
            time.sleep(61 - second)
        connection.execute(f"SELECT count(cron.schedule('s' || i, '* * * * *', 'SELECT 1')) FROM generate_series(1, {jobs}) AS i")
        wait(connection, "SELECT EXISTS (SELECT FROM cron.job_run_details)", 80)
        wait(connection, f"SELECT count(DISTINCT jobid) >= {jobs} FROM cron.job_run_details WHERE status = 'succeeded'", 120)
        took = connection.execute(
            "SELECT EXTRACT(epoch FROM max(first_end) - date_trunc('minute', min(first_end)))::float8"
            " FROM (SELECT min(end_time) AS first_end FROM cron.job_run_details GROUP BY jobid) AS runs"
        ).fetchone()[0]
    return {"value": jobs / took}
