"""How late what was enqueued for later begins to run: beside those that know such a time, and of many a second."""

import threading
import time

import contestants as them
import firing
from board import OURS, Unable
from lateness import MEASURES, percentiles


def measure(server, board, quick):
    """Adds the cases of this part to the board."""
    server.start()
    them.OURS_SQL.ready(server)
    spread, jobs = (1, 100) if quick else (5, 1_000)

    def late(one):
        return lambda: percentiles(one.fires(server, jobs, 2, spread=spread, task="later", timeout=spread + 75))

    board.several("delayed", f"{jobs:,} enqueued for later, spread over {spread} s, from Node", {
        OURS: late(them.OURS_NODE),
        "graphile-worker (polls every 0.1 s)": late(them.GRAPHILE),
        "pg-boss (polls every 0.5 s, its shortest)": late(them.BOSS),
    }, MEASURES)
    seconds = 3 if quick else 10
    for waiting in (0,) if quick else (0, 1_000_000):
        board.several("delayed", f"1,000 a second enqueued for later for {seconds} s, among {waiting:,} others", {
            OURS: lambda waiting=waiting: delayed(server, 1_000, seconds, waiting),
        }, MEASURES)


def delayed(server, rate, seconds, waiting):
    """Of as many executions as two workers get that listen, and claim up to a hundred at once; beside so many that wait for tomorrow."""
    server.sql("ours", firing.EMPTY)
    server.sql("ours", f"""SELECT sched.enqueue_many('bench', array_agg('{{}}'::jsonb), run_ats => array_agg(clock_timestamp() + interval '1 day'))
                             FROM generate_series(1, {waiting}) AS i GROUP BY i / 10000""")
    server.sql("ours", "VACUUM ANALYZE sched.ledger, sched.retry")
    first = firing.instant(server, 3)
    server.sql("ours", """SELECT sched.enqueue_many('bench', array_agg('{}'::jsonb), run_ats => array_agg(%s + i * %s * interval '1 second'))
                            FROM generate_series(0, %s) AS i GROUP BY i / 1000""", first, 1 / rate, rate * seconds - 1)
    server.sql("ours", "VACUUM ANALYZE sched.ledger, sched.retry")
    end = time.monotonic() + 3 + seconds + 5
    workers = [threading.Thread(target=claimer, args=(server, end)) for _ in range(2)]
    for worker in workers:
        worker.start()
    for worker in workers:
        worker.join()
    late = server.sql("ours", """SELECT EXTRACT(epoch FROM started_at - run_at)::float8 FROM sched.ledger
                                  WHERE started_at IS NOT NULL ORDER BY 1""")
    server.sql("ours", firing.EMPTY)
    if len(late) < rate * seconds or late[0][0] < 0:
        raise Unable(f"{len(late)} of {rate * seconds} ran, the first {late[0][0] if late else 0} s late")
    return percentiles([value for (value,) in late])


def claimer(server, end):
    """Until then claims and finishes while there is something, and waits to be told of more."""
    with server.connect("ours") as connection:
        connection.execute('LISTEN "sched:default"')
        while time.monotonic() < end:
            rows = connection.execute("SELECT execution_id, lease_token FROM sched.claim('default', 100)", prepare=True).fetchall()
            if rows:
                ids, tokens = (list(column) for column in zip(*rows))
                connection.execute("SELECT sched.finish_success_many(%s, %s)", [ids, tokens], prepare=True)
                continue
            for _ in connection.notifies(timeout=0.5, stop_after=1):
                pass
