"""The worker that the conformance test runs (docs/guides/write-a-worker.md says what it is to do): --queue NAME, connection from PG*."""

import argparse
from dataclasses import dataclass
from datetime import timedelta

from pg_scheduler import Discard, Retry, Run, Worker

options = argparse.ArgumentParser()
options.add_argument("--queue", default="conformance")
options.add_argument("--slots", type=int, default=2)
given = options.parse_args()
worker = Worker("", given.queue, slots=given.slots, batch=3, grace=1.0)


@dataclass
class Mail:
    to: str


@worker.job("effect")
def effect(run: Run) -> dict:
    run.db.execute("insert into effect (execution_id, attempt) values (%s, %s)", (run.execution_id, run.attempt))
    return {"done": run.payload.get("number")}


@worker.job("typed", payload=Mail)
def typed(run: Run) -> None:
    run.db.execute("insert into effect (execution_id, attempt, what) values (%s, %s, %s)", (run.execution_id, run.attempt, run.payload.to))


@worker.job("fail")
def fail(run: Run) -> None:
    run.db.execute("insert into effect (execution_id, attempt) values (%s, %s)", (run.execution_id, run.attempt))
    raise ValueError("told to fail")


@worker.job("retry")
def retry(run: Run) -> None:
    if run.attempt == 1:
        raise Retry(timedelta(seconds=0.2))


@worker.job("discard")
def discard(run: Run) -> None:
    raise Discard("of no use")


@worker.job("slow")
def slow(run: Run) -> None:
    run.db.execute("select pg_sleep(%s)", (run.payload.get("seconds", 60),))
    run.db.execute("insert into effect (execution_id, attempt) values (%s, %s)", (run.execution_id, run.attempt))


@worker.job("batch", batch=True)
def batch(runs: list) -> None:
    for run in runs:
        run.db.execute("insert into effect (execution_id, attempt) values (%s, %s)", (run.execution_id, run.attempt))


worker.run()
