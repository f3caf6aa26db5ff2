"""1,000,000 schedules, one long story with several sections' figures in it: the worker's memory at the start, loading through
create_schedules while others fire on time, idling, a tick, all due at once in each round, memory after that, and the end of all
those executions."""

import datetime
import time

import contestants as them
import firing
import size
import tick
from board import OURS, Unable

CHUNK = 10_000
ON_TIME = 100  # schedules that fire once a second while the others are loaded
WORKERS = ("scheduler launcher", "scheduler dispatcher")
LOAD = """
SELECT sched.create_schedules((SELECT jsonb_agg(jsonb_build_object(
           'schedule_name', 'm' || i, 'clock', %s::text, 'job_name', 'bench', 'payload', '{"n": 1}'::jsonb))
         FROM generate_series(%s::bigint, %s::bigint) AS i))"""


def measure(server, board, quick):
    """Adds its cases to the board."""
    count = 50_000 if quick else 1_000_000
    rounds = board.rounds
    server.start(*tick.STATISTICS)
    server.sql("postgres", "DROP DATABASE IF EXISTS ours WITH (FORCE)")
    server.prepared.pop("ours", None)
    server.stop()  # so that the memory at the start is that of new processes
    server.start(*tick.STATISTICS)
    them.OURS_SQL.ready(server)
    firing.physical(server)
    with server.connect("postgres") as connection:
        server.wait(connection, "SELECT EXISTS (SELECT FROM pg_stat_activity WHERE backend_type = 'scheduler dispatcher')", 30)
    memory(server, board, "at the start")
    schedules_on_time(server)

    # due tomorrow, so that what follows has all the time that it needs on a slow machine
    tomorrow = firing.instant(server, 80_000).isoformat()
    loading = f"{count:,} schedules through create_schedules, {CHUNK:,} in a call, while {ON_TIME} fire each second"
    took = {}
    board.several("loading", loading, {OURS: lambda: load(server, board, count, f"every 1 day from {tomorrow}", took)}, {
        "until created": ("seconds", "created", False), "until armed": ("seconds", "armed", False),
        "p50 of those on time": ("milliseconds", "p50", False), "p99 of those on time": ("milliseconds", "p99", False),
        "worst of those on time": ("milliseconds", "worst", False),
    }, rounds=1, group="loading")
    if not took:
        raise Unable(f"{count:,} schedules could not be loaded")
    server.sql("ours", "DELETE FROM sched.schedule WHERE schedule_name LIKE 'on time %'")
    server.sql("ours", "VACUUM ANALYZE sched.timer, sched.schedule")
    memory(server, board, f"{count:,} schedules armed")

    seconds = 5 if quick else tick.RESTING
    board.several("tick", f"idle, {count:,} schedules, {seconds} s", {OURS: lambda: tick.idle(server, seconds)}, tick.IDLE,
                  rounds=1, group="idle")
    board.compare("tick", f"{tick.DUE} due among {count:,}", "milliseconds", {OURS: lambda: tick.tick(server, count)},
                  more_is_better=False, group="tick")

    # an edit of all of them costs about as much as making them, a round of fires less than half of that
    due = firing.instant(server, 10 + 1.5 * took["armed"])
    period = datetime.timedelta(seconds=int(max(24 if quick else 60, 1.5 * took["armed"])))
    board.progress(f"firing: {count:,} are given another clock")
    server.sql("ours", "UPDATE sched.schedule SET clock = %s",
               f"every {period.seconds} seconds from {due.isoformat()}")
    with server.connect("ours") as connection:
        server.wait(connection, "SELECT NOT EXISTS (SELECT FROM sched.schedule_change)", 600)
        connection.execute("VACUUM ANALYZE sched.timer, sched.schedule")
    before = size.sizes(server), size.updates(server)
    following = fire(server, board, count, due, period, rounds)
    board.at_least(0.5 if quick else 2)
    when = f"after {rounds} round{'s' * (rounds > 1)} of {count:,} fires"
    memory(server, board, when)
    board.compare("tick", f"{tick.DUE} due among {count:,}, {when}", "milliseconds", {
        OURS: within(server, following, tick.TICKS + 9, lambda: tick.tick(server, count)),
    }, rounds=1, more_is_better=False, group="tick")
    executions(server, board, count, rounds, before)


def within(server, following, seconds, work):
    """The same work, once it has that many seconds until all schedules are due."""
    def checked():
        left = (following() - firing.instant(server, 0)).total_seconds()
        if left < seconds:
            time.sleep(left + 1)
            rest(server)
        return work()
    return checked


def rest(server):
    """Waits until nothing is due."""
    with server.connect("ours") as connection:
        server.wait(connection, "SELECT NOT EXISTS (SELECT FROM sched.timer WHERE fire_at <= clock_timestamp())", 300)


def fire(server, board, count, due, period, rounds):
    """All of them at once in each round, at an instant of the grid that `due` and `period` make. Returns what says when they
    are due next."""
    def following():
        now = firing.instant(server, 2)
        return due + period * max(0, -((due - now) // period))

    def once():
        rest(server)  # an instant that came while they were made ready may still be at work
        server.sql("ours", "TRUNCATE sched.ledger, sched.ready")
        server.settled()
        return firing.until_fired(server, count, following())

    def limit():
        # ours rests meanwhile; what it misses it fires before its next round
        server.set(sched__enabled="off")
        try:
            return firing.limit(server, count)
        finally:
            server.sql("physical", "TRUNCATE physical.ledger, physical.ready, physical.timer, physical.decision")
            server.set(sched__enabled="on")

    board.compare(
        "firing", f"{count:,} due at once", "fires per second", {OURS: once, firing.LIMIT: limit}, rounds=rounds, group="due at once",
        unable={peer.name: f"not tried with this many: {why}" for peer, (_, _, why) in firing.PEERS.items()},
    )
    rest(server)
    return following


def executions(server, board, count, rounds, before):
    """The last round's executions are claimed and finished, with autovacuum on: what is left."""
    server.set(sched__enabled="off")  # or all would be due once more meanwhile
    waiting = server.sql("ours", "SELECT count(*) FROM sched.ready")[0][0]

    def once():
        done = size.finish(server, waiting)
        after = size.sizes(server), size.updates(server)
        rows = server.sql("ours", "SELECT count(*) FROM sched.ledger")[0][0]
        return {
            "rate": done["value"],
            "timer": after[0]["timer table"] / before[0]["timer table"],
            "timer index": after[0]["timer index"] / before[0]["timer index"],
            "ledger": after[0]["ledger table"] / rows, "ledger index": after[0]["ledger index"] / rows,
            "hot timer": size.share(before[1], after[1], "timer"), "hot ledger": size.share(before[1], after[1], "ledger"),
        }

    board.several("size", f"{rounds} round{'s' * (rounds > 1)} of {count:,} fires, the last one's executions finished, autovacuum on", {OURS: once}, {
        "claim 100 + finish": ("executions per second", "rate", True),
        "timer table now, over before": ("times", "timer", False),
        "timer indexes now, over before": ("times", "timer index", False),
        "ledger, table": ("bytes for each execution", "ledger", False),
        "ledger, indexes": ("bytes for each execution", "ledger index", False),
        "heap-only updates of timer": ("percent", "hot timer", True),
        "heap-only updates of ledger": ("percent", "hot ledger", True),
    }, rounds=1, group="a million")
    server.sql("ours", firing.EMPTY)
    server.set(sched__enabled="on")


def schedules_on_time(server):
    """Makes those that fire on time, and waits until each of them has. Each plan fires, however late: one that came late and was
    replaced by the next would be missing from the figures."""
    server.sql("ours", firing.EMPTY)
    with server.connect("ours", "app") as connection:
        connection.execute(
            "SELECT sched.create_schedule('on time ' || i, 'every 1 second from epoch', 'bench', catch_up => 'every_plan',"
            "                             delay => (i * interval '1 second' / %s)) FROM generate_series(0, %s - 1) AS i",
            [ON_TIME, ON_TIME])
    with server.connect("ours") as connection:
        server.wait(connection, f"SELECT count(DISTINCT schedule_id) = {ON_TIME} FROM sched.ledger", 60)


def memory(server, board, when):
    """One case for each of our processes: a single sample, as there is one story."""
    for kind in WORKERS:
        board.compare("memory", f"{kind}, {when}", "MB, private", {
            OURS: lambda: server.memory(kind) / 1024 / 1024,
        }, rounds=1, more_is_better=False, group=kind)


def load(server, board, count, clock, took):
    """{"created", "armed"} in seconds, and how late those were that were due meanwhile."""
    first, started = firing.instant(server, 0), time.monotonic()
    with server.connect("ours", "app") as connection:
        for done in range(0, count, CHUNK):
            connection.execute(LOAD, [clock, done + 1, min(done + CHUNK, count)])
            board.progress(f"loading: {done + CHUNK:,} of {count:,}")
    created = time.monotonic() - started
    with server.connect("ours") as connection:
        server.wait(connection, "SELECT NOT EXISTS (SELECT FROM sched.schedule_change)", 300)
        took["armed"] = armed = time.monotonic() - started
        late = lateness(server, connection, first, firing.instant(server, 0))
    return {"created": created, "armed": armed} | {
        name: max(1e-6, late[min(len(late) - 1, int(len(late) * part))]) * 1000
        for name, part in (("p50", 0.5), ("p99", 0.99), ("worst", 1))
    }


# A plan time is a full second, and each schedule has a delay of its own. Each of them that was due then counts, not each that came.
DUE_MEANWHILE = """
SELECT count(*) FILTER (WHERE l.id IS NULL),
       array_agg(EXTRACT(epoch FROM l.created_at - p - s.delay)::float8 ORDER BY l.created_at - p - s.delay)
  FROM sched.schedule s
 CROSS JOIN generate_series(date_trunc('second', %s::timestamptz) - interval '1 second', %s::timestamptz, '1 second') AS p
  LEFT JOIN sched.ledger l ON l.schedule_id = s.schedule_id AND l.plan_time = p
 WHERE s.schedule_name LIKE 'on time %%' AND p + s.delay >= %s AND p + s.delay < %s"""


def lateness(server, connection, first, last):
    """Sorted seconds of all that were due on time between two instants; those that are still to come are waited for."""
    end = time.monotonic() + 60
    while True:
        missing, late = connection.execute(DUE_MEANWHILE, [first, last, first, last]).fetchone()
        if not late:
            raise Unable(f"none was due on time in the {(last - first).total_seconds():.1f} s that it took")
        if not missing:
            return late
        if time.monotonic() > end:
            raise Unable(f"{missing} of {len(late)} fires that were due on time had not come a minute later")
        time.sleep(0.2)
