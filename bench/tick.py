"""What a tick costs with 100 due among ever more schedules, and what the worker does when none is due."""

import os
import time

import firing
from board import OURS, Unable
from server import cpu_ticks

DUE, TICKS = 100, 10


def measure(server, board, quick):
    """Adds the cases of this section to the board."""
    server.start()
    server.database("ours", (firing.HERE / "sql/ours.sql").read_text())
    for count in (1_000, 10_000) if quick else (1_000, 10_000, 100_000):
        board.compare("tick", f"{DUE} due among {count:,}", "milliseconds", {OURS: lambda: tick(server, count)},
                      more_is_better=False, rounds=2 if quick else None, group="tick")
    server.set(sched__enabled="on")
    idle_seconds = 5 if quick else 30
    transactions = None

    def cpu():
        nonlocal transactions
        milliseconds, transactions = idle(server, 10_000, idle_seconds)
        return milliseconds

    board.compare("tick", f"idle, 10,000 schedules, {idle_seconds} s", "ms of CPU a minute",
                  {OURS: cpu}, rounds=1, more_is_better=False, group="idle")
    if transactions is not None:
        board.compare("tick", f"idle, 10,000 schedules, {idle_seconds} s", "transactions a minute",
                      {OURS: lambda: transactions}, rounds=1, more_is_better=False, group="idle")


def tick(server, count):
    """The median of some calls of dispatch_due in a session that has its plans, each with the same 100 due."""
    server.set(sched__enabled="on")
    due = firing.instant(server, 1)
    firing.schedules(server, count, "every 1 day from {}", first=due.replace(year=due.year + 1), step="0")
    server.set(sched__enabled="off")
    with server.connect("ours", "postgres") as connection:
        connection.execute(
            "UPDATE sched.schedule SET clock = 'every 1 second from ' || date_trunc('second', clock_timestamp())"
            " WHERE schedule_id %% %s = 0", [count // DUE])
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
                raise Unable(f"{fired} fired instead of {DUE}")
    server.set(sched__enabled="on")
    return sorted(took[3:])[TICKS // 2] * 1000


def idle(server, count, seconds):
    due = firing.instant(server, 86_400)
    firing.schedules(server, count, "every 1 day from {}", first=due, step="0")
    time.sleep(2)
    worker = server.sql("ours", "SELECT pid FROM pg_stat_activity WHERE datname = 'ours' AND backend_type = 'scheduler dispatcher'")
    if not worker:
        raise Unable("no dispatcher is to be seen in pg_stat_activity")
    question = "SELECT pg_stat_clear_snapshot(), sum(xact_commit + xact_rollback) FROM pg_stat_database WHERE datname = 'ours'"
    before = server.sql("postgres", question)[0][1], sum(cpu_ticks(worker[0][0])[:2])
    time.sleep(seconds)
    after = server.sql("postgres", question)[0][1], sum(cpu_ticks(worker[0][0])[:2])
    ticks = os.sysconf("SC_CLK_TCK")
    return (after[1] - before[1]) * 1000 / ticks * 60 / seconds, float(after[0] - before[0]) * 60 / seconds
