"""The worker that the conformance tests run (docs/guides/write-a-worker.md says what it is to do): --queue NAME, connection from PG*."""

import argparse
import logging
from dataclasses import dataclass
from datetime import timedelta
from decimal import Decimal

from pg_scheduler import Discard, Hooks, Retry, Run, Snooze, Worker, enqueue

options = argparse.ArgumentParser()
options.add_argument("--queue", default="conformance")
options.add_argument("--slots", type=int, default=2)
options.add_argument("--batch", type=int, default=3)
options.add_argument("--transaction", default="run")
given = options.parse_args()
logging.basicConfig(level=logging.INFO)


class OnDead(Hooks):
    def on_dead(self, run: Run) -> None:
        if run.job_name == "dead":
            insert(run, "dead")


worker = Worker("", given.queue, slots=given.slots, batch=given.batch, grace=1.0, transaction=given.transaction, hooks=OnDead())


@dataclass
class Mail:
    to: str


class Told(Exception):
    """Its name is the ledger's error_code."""


def insert(run: Run, what: str | None = None) -> None:
    run.db.execute("insert into effect (execution_id, attempt, what) values (%s, %s, %s)", (run.execution_id, run.attempt, what))


def was_here(run: Run) -> bool:
    return run.db.execute("select 1 from effect where execution_id = %s", (run.execution_id,)).fetchone() is not None


@worker.job("effect")
def effect(run: Run) -> dict:
    insert(run)
    return {"done": run.payload.get("number")}


@worker.job("typed", payload=Mail)
def typed(run: Run) -> None:
    insert(run, run.payload.to)


@worker.job("fail")
def fail(run: Run) -> None:
    insert(run)
    raise ValueError("told to fail")


@worker.job("retry")
def retry(run: Run) -> None:
    if run.attempt == 1:
        raise Retry(timedelta(seconds=0.2))


@worker.job("discard")
def discard(run: Run) -> None:
    raise Discard("of no use")


@worker.job("dead")
def dead(run: Run) -> None:
    raise Discard("of no use")


@worker.job("slow")
def slow(run: Run) -> None:
    run.db.execute("select pg_sleep(%s)", (run.payload.get("seconds", 60),))
    insert(run)


@worker.job("batch", batch=True)
def batch(runs: list) -> None:
    for run in runs:
        insert(run)


@worker.job("snooze")
def snooze(run: Run) -> None:
    if not was_here(run):
        insert(run, "snoozed")
        raise Snooze(1)
    insert(run, "done")


@worker.job("snooze by method")
def snooze_by_method(run: Run) -> None:
    if was_here(run):
        return insert(run, "done")
    run.snooze(timedelta(seconds=1))
    insert(run, "snoozed")


@worker.job("snooze by hand")
def snooze_by_hand(run: Run) -> None:
    if was_here(run):
        return insert(run, "done")
    run.db.execute("select sched.snooze(%s, %s, clock_timestamp() + interval '1 s')", (run.execution_id, run.lease_token))
    insert(run, "snoozed")


@worker.job("snooze at the end")
def snooze_at_the_end(run: Run) -> None:
    with run.finishing():
        is_second = was_here(run)
        insert(run, "done" if is_second else "snoozed")
        if not is_second:
            raise Snooze(1)


@worker.job("finish by hand")
def finish_by_hand(run: Run) -> dict:
    insert(run)
    run.db.execute("select sched.finish_success(%s, %s, result => '{\"by\": \"hand\"}')", (run.execution_id, run.lease_token))
    return {"by": "the worker"}


@worker.job("list")
def returns_a_list(run: Run) -> list:
    return [1, 2]


@worker.job("told")
def told(run: Run) -> None:
    def innermost() -> None:
        raise Told(run.payload["message"]) from KeyError("the cause")

    innermost()


@worker.job("commit")
def commit(run: Run) -> None:
    run.db.execute("commit")


@worker.job("commit and begin")
def commit_and_begin(run: Run) -> None:
    run.db.execute("commit; begin")


@worker.job("session")
def session(run: Run) -> dict | None:
    if run.payload.get("leave"):
        run.db.execute("set search_path = pg_catalog; create temp table left_behind (); select pg_advisory_lock(7); set role other")
        return None
    query = "select current_user, current_setting('search_path'), to_regclass('pg_temp.left_behind') is not null," \
        " (select count(*) from pg_locks where locktype = 'advisory' and pid = pg_backend_pid())"
    return dict(zip(("role", "search_path", "temp", "locks"), run.db.execute(query).fetchone()))


@worker.job("number")
def number(run: Run) -> dict:
    return run.payload


@worker.job("exact")
def exact(run: Run) -> dict:
    return {"n": Decimal("123456789012345678901234567890")}


@worker.job("enqueue")
def enqueues(run: Run) -> dict:
    enqueue(run.db, "effect", {"number": 8}, scope_id=7)
    refused = 0
    for payload, wrong in ({}, {"runAt": "tomorrow"}), ([1], {}):
        try:
            enqueue(run.db, "effect", payload, **wrong)
        except TypeError:
            refused += 1
    return {"refused": refused}


@worker.job("progress")
def progress(run: Run) -> None:
    run.progress({"done": 0.5})
    run.sleep(3)


@worker.job("serializable")
def serializable(run: Run) -> None:
    run.db.execute("set transaction isolation level serializable")
    run.db.execute("insert into counted select coalesce(max(n), 0) + 1 from counted")
    run.db.execute("select pg_sleep(2.5)")


@worker.job("wait")
def wait(run: Run) -> None:
    run.sleep(run.payload["seconds"])
    result = {}
    with run.finishing(result):
        insert(run)
        result["waited"] = True


worker.run()
