"""The Python library of ours, and the loop that one would write by hand with its driver. Work is to commit with its success, so both have
a transaction for that."""

import pathlib
import sys
import threading
import time

import psycopg

from peers import Asked

sys.path.insert(0, str(pathlib.Path(__file__).parents[2] / "clients/python"))
from pg_scheduler import Hooks, Worker  # noqa: E402

CLAIM = "SELECT execution_id, lease_token, payload FROM sched.claim('default', %s)"
# As docs/guides/batches.md recommends: a batch is ended in the statement that claims the next.
NEXT = f"""SELECT ended.lost, next.* FROM (SELECT array_agg(id) AS lost FROM sched.finish_success_many(%s, %s) AS id) AS ended
  LEFT JOIN ({CLAIM}) AS next ON true"""


class Silent(Hooks):
    """Writes no line for a run, as the loop does not."""

    def succeeded(self, run) -> None:
        pass


def conninfo(asked: Asked) -> str:
    return f"host={asked.host} user=app dbname={asked.database}"


def library(asked: Asked) -> dict:
    started = time.perf_counter()
    worker = Worker(conninfo(asked), slots=asked.workers, batch=asked.batch, hooks=Silent(), max_runs=asked.jobs)

    def work(_) -> None:
        """Has nothing to do."""

    worker.job("bench", work, batch=asked.batch > 1)
    worker.run()
    return {"jobs": asked.jobs, "seconds": time.perf_counter() - started}


def loop(asked: Asked) -> dict:
    started = time.perf_counter()
    threads = [threading.Thread(target=one if asked.batch == 1 else batches, args=(asked,)) for _ in range(asked.workers)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    return {"jobs": asked.jobs, "seconds": time.perf_counter() - started}


def one(asked: Asked) -> None:
    with psycopg.connect(conninfo(asked), autocommit=True) as db:
        while run := db.execute(CLAIM, [1]).fetchone():
            with db.transaction():
                db.execute("SELECT sched.finish_success(%s, %s)", run[:2])


def batches(asked: Asked) -> None:
    with psycopg.connect(conninfo(asked), autocommit=True) as db:
        runs = db.execute(CLAIM, [asked.batch]).fetchall()
        while runs:
            with db.transaction():
                ids, tokens, _ = zip(*runs)
                rows = db.execute(NEXT, [list(ids), list(tokens), asked.batch]).fetchall()
            runs = [row[1:] for row in rows if row[1]]
