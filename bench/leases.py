"""try_claim won, lost and stolen, and the cycle claim → heartbeat → finish, against hand-written prepared statements.

New keys are claimed in a ledger as it is in use: 100,000 executions lie behind (10,000 in a quick run), 1,000 run beside, what earlier
runs claimed has ended, and all is vacuumed."""

import pathlib

import contestants as them
import pgbench
from board import OURS
from goals import HAND

HERE = pathlib.Path(__file__).parent
# With fsync a commit costs the disk's time, which is the same for both: that shows what a service sees. Without it the rest shows.
DISKS = {"fsync off": "off", "fsync on": "on"}
# Where the two are near to each other. Runs of the same differ by a fifth, whatever their length; so there are many short ones.
SHORT = {"won": (12, 16_000), "cycle": (4, 6_000)}  # operation → (how many for one round, transactions in each, about 0.4 s)
EMPTY = {
    "ours": them.OURS_SQL.empty_sql,
    "hand": "TRUNCATE hand.execution",
}
# {0} executions that have ended, and a hundredth of that running: where nothing runs, Postgres takes the index of what runs for the cheapest way
# to a row, whatever is asked for, and the hand-written heartbeats and ends would go through all of it.
HISTORY = {
    "ours": "SELECT count(*) FROM generate_series(1, {0}) AS n, sched.try_claim('bench', to_timestamp(n), 'client', 'before', 'runner');"
    " SELECT count(*) FROM (SELECT array_agg(execution_id) AS ids, array_agg(lease_token) AS tokens FROM sched.lease) AS l,"
    " sched.finish_success_many(l.ids, l.tokens);"
    " SELECT count(*) FROM generate_series(1, {0} / 100) AS n, sched.try_claim('bench', to_timestamp(n), 'client', 'beside', 'beside', '1 day')",
    "hand": "INSERT INTO hand.execution (job_name, scope_kind, scope_id, plan_time, status, attempt, max_attempts, runner_id, lease_token,"
    " heartbeat_at, stale_after, started_at, finished_at, duration_ms) SELECT 'bench', 'client', 'before', to_timestamp(n), 'SUCCESS', 1,"
    " 1000000000, 'runner', gen_random_uuid(), clock_timestamp(), clock_timestamp() + interval '5 min', clock_timestamp(), clock_timestamp(), 0"
    " FROM generate_series(1, {0}) AS n;"
    " INSERT INTO hand.execution (job_name, scope_kind, scope_id, plan_time, status, attempt, max_attempts, runner_id, lease_token,"
    " heartbeat_at, stale_after, started_at) SELECT 'bench', 'client', 'beside', to_timestamp(n), 'RUNNING', 1,"
    " 1000000000, 'beside', gen_random_uuid(), clock_timestamp(), clock_timestamp() + interval '1 day', clock_timestamp()"
    " FROM generate_series(1, {0} / 100) AS n",
}
END = {
    "ours": "SELECT count(*) FROM (SELECT coalesce(array_agg(execution_id), '{}') AS ids, coalesce(array_agg(lease_token), '{}') AS tokens"
    " FROM sched.lease WHERE runner_id <> 'beside') AS l, sched.finish_success_many(l.ids, l.tokens)",
    "hand": "UPDATE hand.execution SET status = 'SUCCESS', finished_at = clock_timestamp(), duration_ms = EXTRACT(epoch FROM"
    " clock_timestamp() - started_at) * 1000, updated_at = clock_timestamp() WHERE status = 'RUNNING' AND runner_id <> 'beside'",
}
# name → (script, length of the lease taken)
OPERATIONS = {
    "won": ("won", "5 min"),
    "lost": ("again", "5 min"),
    "stolen": ("again", "1 microsecond"),
    "cycle": ("cycle", "5 min"),
}


def measure(server, board, quick):
    """Adds the cases of this section to the board."""
    server.start()
    them.OURS_SQL.ready(server)
    server.database("hand", (HERE / "sql/hand.sql").read_text())
    for disk, fsync in DISKS.items():
        server.set(fsync=fsync)
        for name, (script, lease) in OPERATIONS.items():
            if fsync == "on" and name != "cycle":
                continue
            # a run that is stolen at once would otherwise be swept at once; the other side has no sweeper
            server.set(sched__enabled="off" if name == "stolen" else "on")
            for clients in ((8,) if fsync == "on" else (1, 8)) if quick else (1, 4, 8, 64) if fsync == "off" else (1, 8, 64):
                many, length = runs(name, clients, fsync, quick)
                behind = 10_000 if quick else 100_000
                sides = {OURS: Side(server, "ours", f"ours-{script}", behind), HAND: Side(server, "hand", f"hand-{script}", behind)}
                board.compare(
                    "leases", f"{name}, {clients} client{'s' * (clients > 1)}, {disk}", "per second",
                    {side: lambda side=side: sides[side].run(clients, length, lease) for side in sides},
                    group=f"{disk}: {name}",
                    rounds=board.rounds * many,
                )
    server.set(fsync="off", sched__enabled="on")


def runs(name, clients, fsync, quick):
    """How many runs stand for one round, and the length of each, as pgbench.run takes it."""
    if quick or name not in SHORT or clients > 8 or fsync == "on":
        return 1, {"seconds": 1 if quick else 2}
    many, transactions = SHORT[name]
    # With one thread for each processor a run of four clients has one of two speeds, a third apart, by where they are put.
    return many, {"transactions": transactions // max(clients, 4), "threads": max(clients // 4, 1)}


class Side:
    """One of the two, and a ledger of his for one case."""

    def __init__(self, server, database, script, behind):
        self.server, self.database, self.script, self.behind, self.runs = server, database, script, behind, 0

    def run(self, clients, length, lease):
        """One measurement of a `length`, as pgbench.run takes it."""
        if self.script.endswith("again"):
            # each key has been claimed once before
            self.sql(EMPTY[self.database])
            self.pgbench(clients, {"transactions": 500}, lease)
            self.settle()
            return self.pgbench(clients, length, lease)
        if not self.runs:
            self.sql(EMPTY[self.database])
            self.sql(HISTORY[self.database].format(self.behind))
        self.sql(END[self.database])
        self.settle()
        if self.database == "hand":
            self.check_plan()
        self.runs += 1
        # plan times that no run before has had
        return self.pgbench(clients, length, lease, n=self.runs * 10_000_000)

    def settle(self):
        self.sql("VACUUM ANALYZE")
        self.server.settled()

    def check_plan(self):
        """Heartbeats and ends written by hand have to go by the primary key."""
        plan = self.sql(
            "EXPLAIN UPDATE hand.execution SET updated_at = now()"
            " WHERE id = 1 AND lease_token = gen_random_uuid() AND status = 'RUNNING'"
        )
        if "execution_pkey" not in str(plan):
            raise RuntimeError(f"the hand-written ledger is not searched by id: {plan}")

    def sql(self, text):
        return self.server.sql(self.database, text)

    def pgbench(self, clients, length, lease, **more):
        return pgbench.run(self.server, self.database, f"leases/{self.script}.sql", clients, **length, lease=lease, **more)
