"""try_claim won, lost and stolen, and the cycle claim → heartbeat → finish, against hand-written prepared statements."""

import pathlib

import contestants as them
import pgbench
from board import OURS
from goals import HAND

HERE = pathlib.Path(__file__).parent
# With fsync a commit costs the disk's time, which is the same for both: that shows what a service sees. Without it the rest shows.
DISKS = {"fsync off": "off", "fsync on": "on"}
# Where the two are near to each other. Runs of the same differ by a fifth, whatever their length; so there are many short ones.
SHORT = {1: 4_000, 4: 4_000, 8: 2_000}  # clients → transactions of each, about 0.4 s together
EMPTY = {
    "ours": them.OURS_SQL.empty_sql,
    "hand": "TRUNCATE hand.execution",
}
# name → (script, length of the lease taken, seconds on the same 500 keys a client before it is measured)
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
    seconds = 1 if quick else 2
    for disk, fsync in DISKS.items():
        server.set(fsync=fsync)
        for name, (script, lease) in OPERATIONS.items():
            if fsync == "on" and name != "cycle":
                continue
            # a run that is stolen at once would otherwise be swept at once; the other side has no sweeper
            server.set(sched__enabled="off" if name == "stolen" else "on")
            for clients in ((8,) if fsync == "on" else (1, 8)) if quick else (1, 4, 8, 64) if fsync == "off" else (1, 8, 64):
                short = clients in SHORT and name == "won" and not quick
                length = {"transactions": SHORT[clients]} if short else {"seconds": seconds}
                board.compare(
                    "leases", f"{name}, {clients} client{'s' * (clients > 1)}, {disk}", "per second",
                    {
                        OURS: lambda: once(server, "ours", f"ours-{script}", lease, clients, length),
                        HAND: lambda: once(server, "hand", f"hand-{script}", lease, clients, length),
                    },
                    group=f"{disk}: {name}",
                    rounds=board.rounds * (12 if short else 1),
                )
    server.set(fsync="off", sched__enabled="on")


def once(server, database, script, lease, clients, length):
    """One measurement on empty tables of a `length` in seconds or transactions; for `again` each key has been claimed once before."""
    server.sql(database, EMPTY[database])
    if script.endswith("again"):
        pgbench.run(server, database, f"leases/{script}.sql", clients, transactions=500, lease=lease)
        server.sql(database, "VACUUM ANALYZE")
    server.settled()
    return pgbench.run(server, database, f"leases/{script}.sql", clients, **length, lease=lease)
