"""What an old snapshot costs the dispatcher: fires beside an open transaction with an id, before and after the tables that a tick looks
into have got dead entries that no VACUUM may remove. Lateness in milliseconds, and the dispatcher's CPU in milliseconds a second."""

import os
import time

import contestants as them
import firing
import lateness
from server import cpu_ticks

RATE, SECONDS = 500, 10
DEAD = 450_000
AT_ONCE = 1_000


def measure(server, dead=DEAD):
    """(before, after), each {"p50", "p99", "cpu"}."""
    them.OURS_SQL.ready(server)
    with server.connect("ours") as old:
        old.autocommit = False
        old.execute("SELECT pg_current_xact_id()")
        before = fires(server)
        die(server, dead)
        after = fires(server)
        old.rollback()
    return before, after


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
            connection.execute(
                "SELECT count(*) FROM (SELECT array_agg(execution_id) AS ids, array_agg(lease_token) AS tokens FROM sched.claim(max_claims => %s)) AS c,"
                " LATERAL sched.finish_success_many(c.ids, c.tokens)", [AT_ONCE])
        due = armed(server)
        # the index entries that fires leave, without their executions
        connection.execute(
            "DO $$ BEGIN FOR i IN 1 .. " + str(count // RATE) + " LOOP"
            " UPDATE sched.timer SET fire_at = fire_at + interval '1 microsecond' WHERE fire_at IS NOT NULL; COMMIT; END LOOP; END $$")
        drop(server, connection)
        del due


def table(name, server):
    """One line of a table, for a person to read."""
    before, after = measure(server)
    cells = [f"{what}: {before[what]:.2f} → {after[what]:.2f} ({after[what] / before[what]:.2f} ×)" for what in before]
    print(f"| beside an old snapshot: {name} | " + " | ".join(cells) + " |", flush=True)
