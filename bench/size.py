"""What an execution costs on the disk, from its dispatch to its end: bytes of WAL, of tables and of indexes, and how many of the
updates were heap-only."""

import time

import contestants as them
import firing
import pgbench
from board import OURS

TABLES = ("timer", "ledger", "ready", "lease")
DISPATCHED, FINISHED = "dispatch", "claim 100 + finish"
MEASURES = {
    f"WAL of {DISPATCHED}": ("bytes for each execution", "wal dispatch", False),
    f"WAL of {FINISHED}": ("bytes for each execution", "wal finish", False),
    "ledger, table": ("bytes for each execution", "ledger table", False),
    "ledger, indexes": ("bytes for each execution", "ledger index", False),
    "left in ready and lease for vacuum": ("bytes for each execution", "side", False),
    "heap-only updates of ledger": ("percent", "hot ledger", True),
    "heap-only updates of timer": ("percent", "hot timer", True),
}


def measure(server, board, quick):
    """Adds the cases of this section to the board; million.py adds what a million leave."""
    server.start()
    count = 10_000 if quick else 50_000
    board.several("size", f"{count:,} executions", {OURS: lambda: executions(server, count)}, MEASURES)


def executions(server, count):
    """`count` schedules are fired by the worker and their executions finished."""
    due = firing.armed(server, count, spare=4)  # its sizes are looked at before
    before = sizes(server), updates(server)
    fired = firing.until_fired(server, count, due)
    done = finish(server, count)
    after = sizes(server), updates(server)

    def grown(*names):
        return sum(after[0][name] - before[0][name] for name in names) / count

    return {
        "wal dispatch": fired["wal"], "wal finish": done["wal"],
        "ledger table": grown("ledger table"), "ledger index": grown("ledger index"),
        "side": max(0, grown("ready table", "ready index", "lease table", "lease index")),
        "hot ledger": share(before[1], after[1], "ledger"), "hot timer": share(before[1], after[1], "timer"),
    }


def finish(server, count, workers=4):
    """Claims by 100 and finishes them, but for what is left over when each of the workers has had as many."""
    return pgbench.run(server, "ours", "queue/ours-100.sql", workers, transactions=count // 100 // workers, scale=100)


def sizes(server):
    """name of table + ' table' or ' index' → bytes."""
    rows = server.sql("ours", "SELECT t, pg_table_size(format('sched.%%I', t)), pg_indexes_size(format('sched.%%I', t))"
                      "  FROM unnest(%s::text[]) AS t", list(TABLES))
    return {f"{name} table": table for name, table, _ in rows} | {f"{name} index": index for name, _, index in rows}


def updates(server):
    """table → (updates, heap-only ones), so far."""
    time.sleep(1.2)  # a process reports its counters once a second
    server.sql("ours", "SELECT pg_stat_force_next_flush()")
    return {name: (all_of_them, heap_only) for name, all_of_them, heap_only in server.sql(
        "ours", "SELECT relname, n_tup_upd, n_tup_hot_upd FROM pg_stat_user_tables WHERE schemaname = 'sched'")}


def share(before, after, table):
    """Percent of the updates between that were heap-only."""
    made = after[table][0] - before[table][0]
    return 100 * (after[table][1] - before[table][1]) / made if made else 0.0
