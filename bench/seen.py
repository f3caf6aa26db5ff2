"""How long those who watch wait for an answer: sched.metrics(), sched.openmetrics() and sched.health(), what was newest and what waits, with
millions of executions and schedules, with nothing to do and with a million executions that wait."""

import time

import contestants as them
import million
from board import OURS

CALLS = 300
CHUNK = 500_000
# what is asked → the statement
FUNCTIONS = {f"{name}()": f"SELECT count(*) FROM sched.{name}()" for name in ("metrics", "openmetrics", "health")}
NEWEST = {
    "newest 20": "SELECT * FROM sched.recent()",
    "newest 20 of a job (one run in a hundred is its)": "SELECT * FROM sched.recent('job 7')",
    "newest 20 of a schedule": "SELECT * FROM sched.last_runs WHERE schedule_name = 'm4711'",
    "first 20 of a queue": "SELECT * FROM sched.waiting WHERE queue = 'default' ORDER BY position LIMIT 20",
}
QUESTIONS = FUNCTIONS | NEWEST
MEASURES = {
    f"{name}, {label}": ("milliseconds", f"{name} {key}", False)
    for name in QUESTIONS for label, key in (("half within", "p50"), ("p99", "p99"))
}
# Ended executions as workers leave them, and some that wait: written by hand, which is ten times as fast.
ENDED = """
INSERT INTO sched.ledger (id, key, job_name, scope_kind, scope_id, plan_time, queue, priority, payload, status, attempt, max_attempts,
                          allow_stale_reentry, origin, owner, started_at, finished_at, result, fence, runner_id, schedule_id, schedule_name)
SELECT sched_internal.uuid_v7(), s.key, 'job ' || i %% 100, s.scope_kind, s.scope_id,
       '2026-01-01'::timestamptz + i * interval '1 second', 'default', 0, '{"n": 1}', 'SUCCESS', 1, 1, true, 'schedule', 'app',
       clock_timestamp(), clock_timestamp(), '{}', i, 'bench', s.schedule_id, s.schedule_name
  FROM generate_series(%s::bigint, %s::bigint) AS i
  JOIN sched.schedule s ON s.schedule_name = 'm' || 1 + i %% {scopes}"""
WAITING = """
WITH added AS (
    INSERT INTO sched.ledger (id, key, job_name, scope_kind, scope_id, plan_time, queue, priority, payload, max_attempts, allow_stale_reentry,
                              origin, owner)
    SELECT sched_internal.uuid_v7(), md5('waits' || i)::uuid, 'bench', 'waits', i::text, clock_timestamp(), 'default', 0, '{"n": 1}', 1, true,
           'enqueue', 'app'
      FROM generate_series(%s::bigint, %s::bigint) AS i
    RETURNING queue, priority, plan_time, id, owner)
INSERT INTO sched.ready (queue, priority, plan_time, execution_id, owner) SELECT * FROM added"""


def measure(server, board, quick):
    """Adds its cases to the board."""
    schedules, executions, waiting = (20_000, 200_000, 20_000) if quick else (1_000_000, 10_000_000, 1_000_000)
    server.start()
    them.OURS_SQL.ready(server)
    board.progress(f"seen: {schedules:,} schedules are made")
    with server.connect("ours") as connection:
        for first in range(0, schedules, million.CHUNK):
            connection.execute(million.LOAD, ("every 1 day", first + 1, first + million.CHUNK))
        server.wait(connection, "SELECT NOT EXISTS (SELECT FROM sched.schedule_change)", 900)
    server.sql("ours", "ANALYZE sched.schedule")
    board.progress(f"seen: {executions:,} executions are written")
    fill(server, ENDED.replace("{scopes}", str(executions // 100)), executions)
    server.sql("ours", "VACUUM ANALYZE")
    server.settled()
    of = f"{executions:,} executions, {schedules:,} schedules"
    board.several("seen", of, {OURS: lambda: asked(server)}, MEASURES, rounds=1, group="nothing waits")
    board.progress(f"seen: {waiting:,} executions wait")
    fill(server, WAITING, waiting)
    server.sql("ours", "VACUUM ANALYZE sched.ready, sched.ledger")
    server.settled()
    board.several("seen", f"{of}, {waiting:,} of them wait", {OURS: lambda: asked(server)}, MEASURES, rounds=1, group="much waits")


def fill(server, statement, count):
    for first in range(0, count, CHUNK):
        server.sql("ours", statement, first + 1, min(first + CHUNK, count))


def asked(server):
    """Each question asked by one session, as an exporter keeps one."""
    figures = {}
    with server.connect("ours") as connection:
        for name, statement in QUESTIONS.items():
            figures |= timed(connection, name, statement, CALLS)
    return figures


def timed(connection, name, statement, calls, check=len):
    """The p50 and p99 of a statement in milliseconds; `check` gets the rows of each call."""
    took = []
    for _ in range(calls):
        began = time.perf_counter()
        rows = connection.execute(statement).fetchall()
        took.append(1000 * (time.perf_counter() - began))
        check(rows)
        time.sleep(0.01)
    took.sort()
    return {f"{name} p50": took[len(took) // 2], f"{name} p99": took[len(took) * 99 // 100]}
