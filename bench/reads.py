"""How long a user's reads take with 10,000,000 executions: joins on the view's id, and executions by job and scope or by schedule. An
application role asks, so that each row's right is tested."""

import contestants as them
import million
import seen
from board import OURS

SCHEDULES = 1000
ORDERS = 12
CALLS = 100
# Twelve executions that failed, and the application's rows that name them.
FAILED = f"""
CREATE TABLE orders AS
SELECT row_number() OVER () AS order_no, f.id AS execution_id
  FROM (SELECT e.id FROM sched.ledger e LIMIT {ORDERS}) AS f;
UPDATE sched.ledger SET status = 'FAILED', error_code = 'E' WHERE id IN (SELECT execution_id FROM orders);
GRANT SELECT ON orders TO app;
ANALYZE orders;"""
BY_ID = "SELECT o.order_no, e.status, e.error_msg FROM orders o"
# what is read → the statement, its rows
READS = {
    "JOIN sched.execution ON id": (f"{BY_ID} JOIN sched.execution e ON e.id = o.execution_id", ORDERS),
    "JOIN LATERAL by id": (f"{BY_ID} CROSS JOIN LATERAL (SELECT * FROM sched.execution x WHERE x.id = o.execution_id) e", ORDERS),
    "WHERE id IN (SELECT …)": ("SELECT status FROM sched.execution WHERE id IN (SELECT execution_id FROM orders)", ORDERS),
    "sched.failed JOIN sched.execution USING (id), of the orders": (
        "SELECT e.status FROM orders o JOIN sched.failed f ON f.id = o.execution_id JOIN sched.execution e USING (id)", ORDERS),
    "executions_of(job, scope), of a day": (
        "SELECT id FROM sched.executions_of('bench', 'schedule', 'm7', '2026-01-02', '2026-01-03')", None),
    "executions_of(job, scope) LIMIT 100, which reads all of the scope": (
        "SELECT id FROM sched.executions_of('bench', 'schedule', 'm7') LIMIT 100", 100),
    "runs_of(schedule), of an hour": (
        "SELECT id FROM sched.runs_of('m7', '2026-01-02', '2026-01-02 01:00')", None),
}
MEASURES = {
    f"{name}, {label}": ("milliseconds", f"{name} {key}", False) for name in READS for label, key in (("half within", "p50"), ("p99", "p99"))
}


def measure(server, board, quick):
    """Adds its cases to the board."""
    executions = 200_000 if quick else 10_000_000
    server.start()
    them.OURS_SQL.ready(server)
    server.sql("ours", "SELECT sched.grant_use('app')")
    with server.connect("ours", "app") as connection:
        connection.execute(million.LOAD, ("every 1 day", 1, SCHEDULES))
    board.progress(f"reads: {executions:,} executions are written")
    seen.fill(server, seen.ENDED.replace("{scopes}", str(SCHEDULES)).replace("'job ' || i %% 100", "s.job_name"), executions)
    server.sql("ours", FAILED)
    server.sql("ours", "VACUUM ANALYZE")
    server.settled()
    board.several("reads", f"{executions:,} executions", {OURS: lambda: asked(server)}, MEASURES, rounds=1, group="reads")


def asked(server):
    figures = {}
    with server.connect("ours", "app") as connection:
        for name, (statement, wanted) in READS.items():

            def check(rows, name=name, wanted=wanted):
                if not rows or len(rows) != (wanted or len(rows)):
                    raise RuntimeError(f"{name}: {len(rows)} rows")

            figures |= seen.timed(connection, name, statement, CALLS, check)
    return figures
