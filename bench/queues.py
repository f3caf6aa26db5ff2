"""Enqueue, and claim + finish, one and in batches of 100, against pgmq, graphile-worker, pg-boss, procrastinate and pgqueuer.

Each is measured by the client that is fair to it: SQL by pgbench, libraries from their language, and ours by all three."""

import contestants as them
from board import OURS, SPENT, Unable, why

SMALL, LARGE = 1_000, 1_000_000
SQL, NODE, PYTHON = "from SQL", "from Node", "from Python"
ENQUEUE = {
    SQL: (them.OURS_SQL, them.PGMQ_ARCHIVE, them.GRAPHILE_SQL),
    NODE: (them.OURS_NODE, them.BOSS),
    PYTHON: (them.OURS_PYTHON, them.PROCRASTINATE, them.PGQUEUER),
}
DRAIN = {
    SQL: (them.OURS_SQL, them.PGMQ_ARCHIVE, them.PGMQ_DELETE, them.PGMQ_PREPARED),
    NODE: (them.OURS_NODE, them.GRAPHILE_DEFAULT, them.GRAPHILE_TUNED, them.GRAPHILE_TUNED_24, them.BOSS),
    PYTHON: (them.OURS_PYTHON, them.PROCRASTINATE, them.PGQUEUER),
}
ONE_AT_A_TIME = {
    them.GRAPHILE_DEFAULT: "fetches one job at a time", them.PROCRASTINATE: "fetches and finishes one job at a time",
}
IN_BATCHES = {
    them.GRAPHILE_TUNED: "fetches many at a time", them.GRAPHILE_TUNED_24: "fetches many at a time",
    them.PGMQ_PREPARED: "shown for batches only",
}
# how many are taken in one measurement: some seconds' work
TAKEN = {1: 2_500, 100: 20_000}
# A small backlog is gone in some milliseconds: by 100, one measurement is the median of that many (from SQL and Node, where the
# others are the fastest).
TIMES = 3
SLOW = {them.BOSS: 6, them.PROCRASTINATE: 6, them.PGQUEUER: 3, them.GRAPHILE_DEFAULT: 2}  # a fraction of them does


def measure(server, board, quick):
    """Adds the cases of this section to the board."""
    server.start()
    enqueue(server, board, quick)
    drain(server, board, SMALL, quick, refill=True)
    large = 20_000 if quick else LARGE
    filled = {}
    for database, contestant in {one.database: one for group in DRAIN.values() for one in group}.items():
        board.progress(f"queue: a backlog of {large:,} for {contestant.name}")
        filled[database] = prepare(server, board, contestant, large)
    drain(server, board, large, quick, refill=False, filled=filled)
    for group in DRAIN.values():
        for contestant in group:
            if not server.prepared.get(contestant.database):
                contestant.empty(server)


def prepare(server, board, contestant, jobs):
    """Fills a queue; why it could not, or None."""
    try:
        if board.spent():
            return SPENT
        contestant.fill(server, jobs)
    except Exception as error:  # noqa: BLE001 - whatever keeps it from being filled is the reason
        return why(error)
    return None


def words(count, noun):
    return f"{count} {noun}{'s' * (count > 1)}"


def enqueue(server, board, quick):
    seconds = 1 if quick else 2
    for batch in (1, 100):
        name = "one" if batch == 1 else str(batch)
        for clients in (8,) if quick else (1, 8):
            for language, group in ENQUEUE.items():
                if language != SQL and clients == 1:
                    continue
                board.compare(
                    "queue", f"enqueue {name}, {words(clients, 'client')}, {language}", "jobs per second",
                    {
                        one.name.removesuffix(", archive"): (lambda one=one: one.enqueue(server, clients, batch, seconds))
                        for one in group
                    },
                    group=f"enqueue {name}",
                )


def drain(server, board, backlog, quick, *, refill, filled=None):
    for batch in (1, 100):
        name = "one" if batch == 1 else str(batch)
        for workers in (8,) if quick else (1, 4, 8):
            for language, group in DRAIN.items():
                contestants, unable = {}, {}
                for one in group:
                    reason = (ONE_AT_A_TIME if batch > 1 else IN_BATCHES).get(one) or (filled or {}).get(one.database)
                    if one is them.GRAPHILE_TUNED_24 and workers != 8:
                        continue
                    if reason:
                        unable[one.name] = reason
                    else:
                        contestants[one.name] = drained(server, one, backlog, batch, workers, refill, quick)
                board.compare(
                    "queue", f"claim {name} + finish, {words(workers, 'worker')}, backlog {backlog:,}, {language}",
                    "jobs per second", contestants, group=f"claim {name} + finish", unable=unable,
                )


def drained(server, one, backlog, batch, workers, refill, quick):
    """A measurement of one contestant. A large backlog is filled once, and hardly smaller for what is taken from it."""
    jobs = max(batch * workers, min(backlog, TAKEN[batch] // SLOW.get(one, 1)))
    if not refill:
        jobs = min(jobs, backlog // 20)

    def once():
        if refill:
            one.fill(server, backlog)
        elif reason := server.prepared.get(one.database):
            raise Unable(reason)
        else:
            server.settled()
        return one.drain(server, workers, batch, jobs)

    def some():
        return sorted((once() for _ in range(TIMES)), key=lambda found: found["value"])[TIMES // 2]
    return some if refill and batch > 1 and getattr(one, "runtime", None) != "python" and not quick else once
