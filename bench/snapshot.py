"""What an old snapshot costs the dispatcher: fires beside an open transaction with an id, before and after the tables that a tick looks
into have got dead entries that no VACUUM may remove. Lateness in milliseconds, and the dispatcher's CPU in milliseconds a second."""

import contextlib
import os
import threading
import time

import contestants as them
import firing
import lateness
from server import cpu_ticks

RATE, SECONDS = 500, 10
DEAD = 450_000
AT_ONCE = 1_000
CLAIM_AND_FINISH = (
    "SELECT cardinality(ids) - (SELECT count(*) FROM sched.finish_success_many(ids, tokens)) FROM (SELECT coalesce(array_agg(execution_id), '{}') AS ids,"
    " coalesce(array_agg(lease_token), '{}') AS tokens FROM sched.claim(max_claims => %s)) AS c")


def measure(servers, dead=DEAD, minutes=0):
    """{side: (before, after)}, each {"p50", "p99", "cpu"}. The dead entries are made as fast as the machine can, or by so many minutes of
    RATE executions a second on all sides at once, as a service leaves them."""
    with contextlib.ExitStack() as stack:
        before = {}
        for side, server in servers.items():
            them.OURS_SQL.ready(server)
            old = stack.enter_context(server.connect("ours"))
            old.autocommit = False
            old.execute("SELECT pg_current_xact_id()")
            before[side] = fires(server)
        if minutes:
            at_once([lambda server=server: live(server, minutes * 60) for server in servers.values()])
        else:
            for server in servers.values():
                die(server, dead)
        return {side: (before[side], fires(server)) for side, server in servers.items()}


def at_once(works):
    """Does these things at one time, and raises what the first that failed has raised."""
    failed = []

    def attempt(work):
        try:
            work()
        except Exception as error:
            failed.append(error)
    threads = [threading.Thread(target=attempt, args=[work]) for work in works]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    if failed:
        raise failed[0]


def fires(server):
    due = armed(server)
    worker = server.sql(
        "postgres", "SELECT pid FROM pg_stat_activity WHERE datname = 'ours' AND backend_type = 'scheduler dispatcher'")[0][0]
    time.sleep(max(0, due.timestamp() - time.time()))
    began = sum(cpu_ticks(worker)[:2])
    time.sleep(SECONDS)
    cpu = (sum(cpu_ticks(worker)[:2]) - began) * 1000 / os.sysconf("SC_CLK_TCK") / SECONDS
    with server.connect("ours") as connection:
        server.wait(connection, f"SELECT count(*) >= {RATE * SECONDS} FROM sched.ledger WHERE origin = 'schedule' AND plan_time >= '{due}'", 60)
        late = [row[0] for row in connection.execute(
            "SELECT EXTRACT(epoch FROM created_at - plan_time)::float8 FROM sched.ledger"
            " WHERE origin = 'schedule' AND plan_time >= %s AND plan_time < %s + %s * interval '1 second' ORDER BY 1",
            [due, due, SECONDS])]
        drop(server, connection)
    share = lateness.percentiles(late)
    return {"p50": share[0.5], "p99": share[0.99], "cpu": cpu}


def armed(server):
    """Schedules that fire each second; when the first is due. (Nothing is emptied: a TRUNCATE would take the dead entries along.)"""
    due = firing.instant(server, 8)
    server.sql(
        "ours", "SELECT sched.create_schedule('snapshot ' || i, 'every 1 second from ' || (%s::timestamptz + i * %s::interval)::text,"
        " 'bench', scope_id => i::text) FROM generate_series(0, %s - 1) AS i", due, f"{1 / RATE} seconds", RATE)
    return due


def drop(server, connection):
    connection.execute("SELECT sched.drop_schedule(schedule_name, cancel_pending => true) FROM sched.schedules WHERE schedule_name LIKE 'snapshot %'")
    server.wait(connection, "SELECT NOT EXISTS (SELECT FROM sched.schedule_change) AND NOT EXISTS (SELECT FROM sched.ready)", 120)


def die(server, count):
    """So many executions that were enqueued, claimed and ended, and as many fires of timers."""
    with server.connect("ours") as connection:
        for _ in range(count // AT_ONCE):
            connection.execute("SELECT sched.enqueue_many('bench', array_fill('{}'::jsonb, ARRAY[%s]))", [AT_ONCE])
            connection.execute(CLAIM_AND_FINISH, [AT_ONCE])
        due = armed(server)
        # the index entries that fires leave, without their executions
        connection.execute(
            "DO $$ BEGIN FOR i IN 1 .. " + str(count // RATE) + " LOOP"
            " UPDATE sched.timer SET fire_at = fire_at + interval '1 microsecond' WHERE fire_at IS NOT NULL; COMMIT; END LOOP; END $$")
        drop(server, connection)
        del due


def live(server, seconds):
    """So long RATE fires a second, each claimed and ended."""
    armed(server)
    ended, until = 0, time.monotonic() + seconds
    with server.connect("ours") as connection:
        while time.monotonic() < until:
            ended += connection.execute(CLAIM_AND_FINISH, [AT_ONCE]).fetchone()[0]
            time.sleep(0.2)
        drop(server, connection)
    if ended < 0.8 * RATE * (seconds - 10):
        raise RuntimeError(f"{ended} executions ended in {seconds} s: the machine is too busy for {RATE} a second")


def tables(servers, minutes=0):
    """One line of a table for each side, for a person to read."""
    how = f"{minutes} minutes at {RATE} a second" if minutes else f"{DEAD:,} dead entries"
    for side, (before, after) in measure(servers, minutes=minutes).items():
        cells = [f"{what}: {before[what]:.2f} → {after[what]:.2f} ({after[what] / before[what]:.2f} ×)" for what in before]
        print(f"| beside an old snapshot, {how}: {side} | " + " | ".join(cells) + " |", flush=True)
