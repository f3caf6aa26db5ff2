"""Schedules that are due at once: from the due instant until the last execution can be seen, against the physical limit (the
same rows written by set-based SQL that is given every decision), a row-by-row dispatcher in Python, and every peer that has
schedules. What enqueues inside its own process (APScheduler, pgqueuer's schedules, celery beat) is asked for no enqueuing."""

import datetime
import pathlib
import time
import zoneinfo

import contestants as them
from board import OURS, Unable
from croniter import croniter
from goals import LIMIT, ROWS, ROWS_GIVEN

HERE = pathlib.Path(__file__).parent
BATCH = 1000  # the default of sched.batch_size
REST = 2  # seconds that the limit waits as well before it begins: a process that has slept finds cold caches
LONGEST_ROW_BY_ROW = 5_000  # its rate does not depend on how many more there are
EMPTY = ("TRUNCATE sched.schedule, sched.schedule_change, sched.timer, sched.ledger, sched.ready, sched.retry, sched.lease,"
         " sched.awaited")
# contestant → (how many at once, schedules a second that it can be given while they are made, why no other number)
SECONDS_TO_MAKE = 2
PEERS = {
    them.PG_CRON: ((1_000,), 10_000, "32 at once at most, and its launcher reads all of them each minute"),
    them.GRAPHILE: ((1_000, 10_000), 5_000, "one statement enqueues all of them, and takes longer than this run has for it"),
    them.BOSS: ((1_000,), 300, "it forwards 50 each second, by its own queue"),
    them.PROCRASTINATE: ((1_000,), 3_000, "it enqueues one after the other"),
    them.PGQUEUER: ((1_000,), 300, "it works out every crontab again at each look"),
    them.APSCHEDULER: ((1_000,), 400, "it writes each to its store in turn"),
    them.CELERY_BEAT: ((1_000,), 300, "it compares all of its schedules at each fire"),
}


def measure(server, board, quick):
    """Adds the cases of this section to the board."""
    server.start()
    them.OURS_SQL.ready(server)
    physical(server)
    server.database("rows", (HERE / "sql/rows.sql").read_text())
    for count in (1_000, 10_000) if quick else (1_000, 10_000, 100_000):
        few = min(count, 1_000 if quick else LONGEST_ROW_BY_ROW)
        contestants = {
            OURS: lambda: ours(server, count),
            LIMIT: lambda: limit(server, count),
            ROWS: lambda: rows(server, few, by_cron),
            ROWS_GIVEN: lambda: rows(server, few, given),
        }
        unable = {}
        if not quick:
            contestants |= {peer.name: peer_fires(server, peer, count) for peer, (counts, *_) in PEERS.items() if count in counts}
            unable = {
                peer.name: f"not tried with this many: {why}" for peer, (counts, _, why) in PEERS.items() if count not in counts
            }
        board.compare(
            "firing", f"{count:,} due at once", "fires per second", contestants, group="due at once", unable=unable,
            note=f"row-by-row dispatchers have {LONGEST_ROW_BY_ROW:,}" if count > LONGEST_ROW_BY_ROW else None,
        )
    if quick:
        few = 200
        board.compare("firing", f"{few} due at once", "fires per second", {
            OURS: lambda: ours(server, few), **{
                peer.name: peer_fires(server, peer, few) for peer in PEERS if peer not in (them.PG_CRON, them.GRAPHILE)
            },
        }, group="due at once", unable={
            peer.name: "fires at full minutes only, for which a quick run does not wait" for peer in (them.PG_CRON, them.GRAPHILE)
        })
    # what each row's own commit costs on this machine's disk
    server.set(fsync="on")
    board.compare("firing", "10,000 due at once, fsync on", "fires per second", {
        OURS: lambda: ours(server, 10_000),
        LIMIT: lambda: limit(server, 10_000),
        ROWS: lambda: rows(server, 200 if quick else 500, by_cron),
        ROWS_GIVEN: lambda: rows(server, 200 if quick else 500, given),
    }, group="fsync on")
    server.set(fsync="off")


def peer_fires(server, peer, count):
    """From the due instant to the last, for one peer."""
    made_a_second = PEERS[peer][1]

    def once():
        server.start()
        lead = SECONDS_TO_MAKE + count / made_a_second
        late = peer.fires(server, count, lead, timeout=10 * lead + 150)
        return {"value": len(late) / late[-1], "count": len(late)}
    return once


def schedules(server, count, clock, *, first, step):
    """Replaces all schedules by `count` new ones; clock is a text with {} for the instant, `step` apart from `first` on."""
    them.OURS_SQL.ready(server)
    server.sql("ours", EMPTY)
    with server.connect("ours", "postgres") as connection:
        # what create_schedule writes, for all at once
        connection.execute(
            """INSERT INTO sched.schedule (schedule_name, clock, time_zone, job_name, payload, scope_kind, scope_id, catch_up,
                                           max_plans_per_tick, rearm, overlap, delay, jitter, ownership, enabled,
                                           created_at, baseline_at, updated_at)
               SELECT 's' || i, replace(%s, '{}', (%s::timestamptz + i * %s::interval)::text), 'UTC', 'bench', '{"n": 1}',
                      'schedule', 's' || i, 'latest_only', 100, 'on_dispatch', 'allow', '0', '0', 'owned', true,
                      clock_timestamp(), clock_timestamp(), clock_timestamp()
                 FROM generate_series(0, %s - 1) AS i""",
            (clock, first, step, count),
        )
        server.wait(connection, "SELECT NOT EXISTS (SELECT FROM sched.schedule_change)", 90)
        connection.execute("VACUUM ANALYZE sched.timer, sched.schedule")
        connection.execute("CHECKPOINT")


def instant(server, seconds):
    return server.sql("postgres", "SELECT clock_timestamp() + %s * interval '1 second'", seconds)[0][0]


def ours(server, count):
    return until_fired(server, count, armed(server, count))


def armed(server, count, *, spare=1, clock="every 1 day from {}", step="0"):
    """`count` schedules that are armed `spare` seconds before the first is due, or earlier; that instant."""
    for longer in (1, 3, 9):  # for a machine that is slow at the moment
        due = instant(server, 3 + spare + longer * count / 10_000)
        schedules(server, count, clock, first=due, step=step)
        if instant(server, spare) < due:
            return due
    raise Unable("arming took longer than planned for")


def until_fired(server, count, due):
    """Waits for the schedules that are due at that instant; they are armed, and the ledger is empty."""
    before = server.cpu(), server.wal()
    with server.connect("ours") as connection:
        cursor = connection.execute("SELECT greatest(0, EXTRACT(epoch FROM %s - clock_timestamp()))::float8 - 0.05", [due])
        time.sleep(max(0, cursor.fetchone()[0]))
        connection.prepare_threshold = 0
        connection.execute('LISTEN "sched:default"')
        # one index probe, when something was enqueued, as a worker does; a little late rather than early
        server.wait(connection, f"SELECT NOT EXISTS (SELECT FROM sched.timer WHERE fire_at <= '{due}')", 600, notified=True)
        took, fired = connection.execute(
            "SELECT EXTRACT(epoch FROM clock_timestamp() - %s)::float8,"
            "       (SELECT count(*) FROM sched.ledger WHERE plan_time = %s)", [due, due]
        ).fetchone()
    if fired != count:
        raise RuntimeError(f"{fired} of {count} fired")
    return {
        "value": count / took, "cpu": (server.cpu() - before[0]) * 1e6 / count, "wal": (server.wal() - before[1]) / count,
    }


def physical(server):
    """The database of the physical limit: its tables are made like ours. The extension's dispatcher there has nothing to do."""
    server.database("physical", "CREATE EXTENSION scheduler", (HERE / "sql/limit.sql").read_text())


def limit(server, count):
    with server.connect("physical") as connection:
        connection.execute("CALL physical.prepare(%s, %s)", [count, BATCH])
        connection.execute("VACUUM ANALYZE physical.timer, physical.decision")
        connection.execute("CHECKPOINT")
        time.sleep(REST)
        before = server.cpu(), server.wal()
        started = time.monotonic()
        connection.execute("CALL physical.fire()")
        took = time.monotonic() - started
    return {
        "value": count / took, "cpu": (server.cpu() - before[0]) * 1e6 / count, "wal": (server.wal() - before[1]) / count,
    }


def by_cron(cron, zone, _plan):
    """The next time as the dispatcher of a periodic-schedule table works it out: the crontab's next after now, in the schedule's zone."""
    return croniter(cron, datetime.datetime.now(zoneinfo.ZoneInfo(zone))).get_next(datetime.datetime)


def given(_cron, _zone, plan):
    """What is left of such a dispatcher where somebody tells it the next time."""
    return plan + datetime.timedelta(minutes=1)


def rows(server, count, following):
    """Scan, then for each row one transaction with the insert and the advance: what a periodic-schedule table is driven by."""
    server.sql("rows", "TRUNCATE periodic, message")
    server.sql("rows", "INSERT INTO periodic SELECT 's' || i, true, 'UTC', '* * * * *', '{\"n\": 1}', clock_timestamp()"
               " FROM generate_series(1, %s) AS i", count)
    server.sql("rows", "VACUUM ANALYZE periodic")
    server.settled()
    with server.connect("rows", "app") as connection:
        connection.prepare_threshold = 0
        before = server.cpu(), server.wal()
        started = time.monotonic()
        due = connection.execute(
            "SELECT name, time_zone, cron, payload, next_run_at FROM periodic WHERE owned AND next_run_at <= clock_timestamp() ORDER BY next_run_at"
        ).fetchall()
        for name, zone, cron, payload, plan in due:
            next_run_at = following(cron, zone, plan)
            with connection.transaction():
                connection.execute("INSERT INTO message (queue, name, payload, plan_time, priority)"
                                   " VALUES ('scheduler', %s, %s::jsonb, %s, 5)", [name, '{"n": 1}', plan])
                connection.execute("UPDATE periodic SET last_run_at = %s, next_run_at = %s WHERE name = %s",
                                   [plan, next_run_at, name])
        took = time.monotonic() - started
    return {"value": count / took, "wal": (server.wal() - before[1]) / count, "cpu": (server.cpu() - before[0]) * 1e6 / count}
