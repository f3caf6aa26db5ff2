"""How late: (time of the insert, or of the task's start) − plan time, for 1,000 schedules spread over 30 s and for 1,000 fires a
second.

graphile-worker's and pg-boss' own schedules know minutes, or look once a second: here each of theirs is a job with a start time."""

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


def percentiles(late):
    """share → milliseconds, of sorted seconds."""
    return {share: max(1e-6, late[min(len(late) - 1, int(len(late) * share))]) * 1000 for _, share, _ in MEASURES.values()}


def spread_out(server, jobs, seconds):
    due = firing.armed(server, jobs, step=f"{seconds / jobs} seconds")
    return percentiles(lateness(server, due, seconds, jobs))


def steady(server, rate, seconds):
    due = firing.armed(server, rate, clock="every 1 second from {}", step=f"{1 / rate} seconds")
    return percentiles(lateness(server, due, seconds, rate * seconds))


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
