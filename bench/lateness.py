"""How late: (time of the insert, or of the task's start) − plan time, for 1,000 schedules spread over 30 s and for 1,000 fires a
second.

graphile-worker's and pg-boss' own schedules know minutes, or look once a second: here each of theirs is a job with a start time.

And how long after their `run_at` two workers have executions that were enqueued for later."""

import threading
import time

import contestants as them
import firing
from board import OURS, Unable

MEASURES = {"p50": ("milliseconds", 0.5, False), "p99": ("milliseconds", 0.99, False), "worst": ("milliseconds", 1.0, False)}


def measure(server, board, quick):
    """Adds the cases of this section to the board: p50, p99 and worst of the same runs."""
    server.start()
    spread = 4 if quick else 30
    jobs = 120 if quick else 1_000

    def theirs(peer, task="fires"):
        return lambda: percentiles(peer.fires(server, jobs, 2, spread=spread, task=task, timeout=spread + 75))

    board.several("lateness", f"{jobs:,} spread over {spread} s", {
        OURS: lambda: spread_out(server, jobs, spread),
        "graphile-worker (polls every 0.1 s)": theirs(them.GRAPHILE, "later"),
        "pg-boss (polls every 0.5 s, its shortest)": theirs(them.BOSS, "later"),
        "procrastinate (periodic tasks)": theirs(them.PROCRASTINATE),
        "pgqueuer (schedules)": theirs(them.PGQUEUER),
        them.APSCHEDULER.name: theirs(them.APSCHEDULER),
        them.CELERY_BEAT.name: theirs(them.CELERY_BEAT),
    }, MEASURES, unable={them.PG_CRON.name: "fires at full minutes only"})
    seconds = 3 if quick else 10
    board.several("lateness", f"1,000 fires a second for {seconds} s", {
        OURS: lambda: steady(server, 1_000, seconds),
    }, MEASURES)
    for waiting in (0,) if quick else (0, 1_000_000):
        board.several("lateness", f"1,000 executions a second enqueued for later for {seconds} s, among {waiting:,} others", {
            OURS: lambda: delayed(server, 1_000, seconds, waiting),
        }, MEASURES)


def percentiles(late):
    """share → milliseconds, of sorted seconds."""
    return {share: max(1e-6, late[min(len(late) - 1, int(len(late) * share))]) * 1000 for _, share, _ in MEASURES.values()}


def spread_out(server, jobs, seconds):
    due = firing.armed(server, jobs, step=f"{seconds / jobs} seconds")
    return percentiles(lateness(server, due, seconds, jobs))


def steady(server, rate, seconds):
    due = firing.armed(server, rate, clock="every 1 second from {}", step=f"{1 / rate} seconds")
    return percentiles(lateness(server, due, seconds, rate * seconds))


def delayed(server, rate, seconds, waiting):
    """Of as many executions as two workers get that listen, and claim up to a hundred at once; beside so many that wait for tomorrow."""
    server.sql("ours", firing.EMPTY)
    server.sql("ours", f"""SELECT sched.enqueue_many('bench', array_agg('{{}}'::jsonb), run_ats => array_agg(clock_timestamp() + interval '1 day'))
                             FROM generate_series(1, {waiting}) AS i GROUP BY i / 10000""")
    server.sql("ours", "VACUUM ANALYZE sched.ledger, sched.retry")
    first = firing.instant(server, 3)
    server.sql("ours", """SELECT sched.enqueue_many('bench', array_agg('{}'::jsonb), run_ats => array_agg(%s + i * %s * interval '1 second'))
                            FROM generate_series(0, %s) AS i GROUP BY i / 1000""", first, 1 / rate, rate * seconds - 1)
    server.sql("ours", "VACUUM ANALYZE sched.ledger, sched.retry")
    end = time.monotonic() + 3 + seconds + 5
    workers = [threading.Thread(target=claimer, args=(server, end)) for _ in range(2)]
    for worker in workers:
        worker.start()
    for worker in workers:
        worker.join()
    late = server.sql("ours", """SELECT EXTRACT(epoch FROM started_at - run_at)::float8 FROM sched.ledger
                                  WHERE started_at IS NOT NULL ORDER BY 1""")
    server.sql("ours", firing.EMPTY)
    if len(late) < rate * seconds or late[0][0] < 0:
        raise Unable(f"{len(late)} of {rate * seconds} ran, the first {late[0][0] if late else 0} s late")
    return percentiles([value for (value,) in late])


def claimer(server, end):
    """Until then claims and finishes while there is something, and waits to be told of more."""
    with server.connect("ours") as connection:
        connection.execute('LISTEN "sched:default"')
        while time.monotonic() < end:
            rows = connection.execute("SELECT execution_id, lease_token FROM sched.claim('default', 100)", prepare=True).fetchall()
            if rows:
                ids, tokens = (list(column) for column in zip(*rows))
                connection.execute("SELECT sched.finish_success_many(%s, %s)", [ids, tokens], prepare=True)
                continue
            for _ in connection.notifies(timeout=0.5, stop_after=1):
                pass


def lateness(server, due, seconds, expected):
    """Sorted seconds, of all plan times in that span; then the schedules are gone."""
    with server.connect("ours") as connection:
        left = connection.execute("SELECT EXTRACT(epoch FROM %s - clock_timestamp())::float8", [due]).fetchone()[0]
        time.sleep(max(0, left) + seconds)
        server.wait(connection, f"SELECT count(*) >= {expected} FROM sched.ledger", 10)
        late = connection.execute(
            "SELECT EXTRACT(epoch FROM created_at - plan_time)::float8 FROM sched.ledger"
            " WHERE plan_time < %s + %s * interval '1 second' ORDER BY 1", [due, seconds]
        ).fetchall()
    server.sql("ours", firing.EMPTY)
    if len(late) < expected:
        raise Unable(f"{len(late)} of {expected} fired")
    return [value for (value,) in late]
