"""What a tick costs with 100 due among ever more schedules, and what the worker does when none is due."""

import os
import time

import contestants as them
import firing
from board import OURS, Unable
from server import cpu_ticks

DUE, TICKS = 100, 7
RESTING = 65  # seconds, more than sched.tick_interval: what its look does counts
STATISTICS = ("scheduler,pg_stat_statements",)  # which counts nothing until `idle` lets it
IDLE = {
    "CPU": ("milliseconds a minute", "cpu", False), "transactions": ("a minute", "transactions", False),
    "queries": ("a minute", "queries", False),
}


def measure(server, board, quick):
    """Adds the cases of this section to the board; million.py adds those with 1,000,000."""
    server.start(*STATISTICS)
    them.OURS_SQL.ready(server)
    for count in (1_000, 10_000) if quick else (1_000, 10_000, 100_000):
        def once():
            far(server, count)
            return tick(server, count)

        board.compare("tick", f"{DUE} due among {count:,}", "milliseconds", {OURS: once}, more_is_better=False, group="tick")
    seconds = 5 if quick else RESTING

    def resting():
        far(server, 10_000)
        return idle(server, seconds)

    board.several("tick", f"idle, 10,000 schedules, {seconds} s", {OURS: resting}, IDLE, rounds=1, group="idle")


def far(server, count):
    """`count` schedules that are due in most of a day."""
    firing.schedules(server, count, "every 1 day from {}", first=firing.instant(server, 80_000), step="0")


def tick(server, count):
    """The median in milliseconds of some calls of dispatch_due in a session that has its plans, each with the same 100 due."""
    server.set(sched__enabled="off")
    try:
        with server.connect("ours", "postgres") as connection:
            connection.execute(
                "UPDATE sched.schedule SET clock = 'every 1 second from ' || date_trunc('second', clock_timestamp())"
                " WHERE schedule_id IN (SELECT schedule_id FROM sched.schedule ORDER BY schedule_id LIMIT %s)", [DUE])
            connection.execute("SELECT sched.dispatch_due(100000)")
            connection.execute("VACUUM ANALYZE sched.timer, sched.schedule")
            took = []
            while len(took) < TICKS + 3:
                # all of them are due again once the next second has begun
                time.sleep(1.02 - time.time() % 1)
                started = time.perf_counter()
                fired = connection.execute("SELECT sched.dispatch_due()").fetchone()[0]
                if fired == DUE:
                    took.append(time.perf_counter() - started)
                elif fired > DUE or len(took) > 50:
                    raise Unable(f"{fired} fired instead of {DUE}, among {count:,}")
    finally:
        server.set(sched__enabled="on")
    return sorted(took[3:])[TICKS // 2] * 1000


def idle(server, seconds):
    """{"cpu", "transactions", "queries"} a minute of the dispatcher, with nothing due for `seconds`.

    Queries are what pg_stat_statements counts in that database, with those that functions run. Autovacuum has its rest meanwhile:
    its transactions are counted for the database that it works in, and have the dispatcher look whether they changed anything."""
    server.sql("postgres", "CREATE EXTENSION IF NOT EXISTS pg_stat_statements")
    server.set(pg_stat_statements__track="all", autovacuum="off")
    try:
        return _idle(server, seconds)
    finally:
        server.set(pg_stat_statements__track="none", autovacuum="on")


def _idle(server, seconds):
    with server.connect("postgres") as connection:
        def ask(text):
            return connection.execute(text).fetchone()

        server.wait(
            connection, "SELECT NOT EXISTS (SELECT FROM pg_stat_activity WHERE backend_type LIKE 'autovacuum%')", 60)
        worker = ask("SELECT pid FROM pg_stat_activity WHERE datname = 'ours' AND backend_type = 'scheduler dispatcher'")
        if not worker:
            raise Unable("no dispatcher is to be seen in pg_stat_activity")

        def counters():
            return (
                sum(cpu_ticks(worker[0])[:2]) * 1000 / os.sysconf("SC_CLK_TCK"),
                ask("SELECT pg_stat_clear_snapshot(), xact_commit + xact_rollback FROM pg_stat_database WHERE datname = 'ours'")[1],
                ask("SELECT coalesce(sum(calls), 0) FROM pg_stat_statements"
                    " WHERE dbid = (SELECT oid FROM pg_database WHERE datname = 'ours')")[0],
            )

        # what made the schedules, and the change of the setting, have ended, and a second look has found that nothing was written since
        time.sleep(max(2, seconds))
        before = counters()
        time.sleep(seconds)
        after = counters()
    return {
        name: float(late - early) * 60 / seconds for name, early, late in zip(("cpu", "transactions", "queries"), before, after)
    }
