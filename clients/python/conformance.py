"""The worker that the conformance tests run (docs/guides/write-a-worker.md lists its options and handlers). Its connection is from PG*."""

import argparse
import logging
import threading
from contextlib import contextmanager
from dataclasses import dataclass
from datetime import timedelta
from decimal import Decimal

from pg_scheduler import Discard, Hooks, Retry, Run, Snooze, Worker, cancel, enqueue, enqueue_many

options = argparse.ArgumentParser()
options.add_argument("--queues", default="conformance=2", help="each with its slots")
options.add_argument("--batch", type=int, default=3)
options.add_argument("--transaction", default="run")
options.add_argument("--workers", type=int, default=1)
options.add_argument("--json", choices=["number", "exact"], default="number")
options.add_argument("--prepare", choices=["on", "off"], default="on")
options.add_argument("--listen", help="the host of a direct connection")
options.add_argument("--declare", action="store_true")
given = options.parse_args()
logging.basicConfig(level=logging.INFO)


class OnDead(Hooks):
    def on_dead(self, run: Run) -> None:
        if run.job_name != "discard":
            insert(run, run.db, "dead")


declared = {"schedules": [{"schedule_name": "declared", "clock": "0 6 * * *", "job_name": "effect"}], "schedule_group": "conformance"}


def made() -> Worker:
    return Worker(
        "", queues={queue: int(slots) for queue, slots in (word.split("=") for word in given.queues.split(","))}, batch=given.batch, grace=1.0,
        transaction=given.transaction, hooks=OnDead(), json="decimal" if given.json == "exact" else "number", prepare=given.prepare == "on",
        listen_dsn=f"host={given.listen} port=5432" if given.listen else None, **(declared if given.declare else {}),
    )


@dataclass
class Mail:
    to: str


class Told(Exception):
    """Its name is the ledger's error_code."""


@contextmanager
def transaction(run: Run, result: object = None):
    if given.transaction == "run":
        yield run.db
    else:
        with run.finishing(result) as db:
            yield db


def insert(run: Run, db, what: str | None = None) -> None:
    db.execute("insert into effect (execution_id, attempt, what) values (%s, %s, %s)", (run.execution_id, run.attempt, what))


def was_here(run: Run, db) -> bool:
    return db.execute("select 1 from effect where execution_id = %s", (run.execution_id,)).fetchone() is not None


def effect(run: Run) -> dict:
    insert(run, run.db)
    return {"done": run.payload.get("number")}


def typed(run: Run) -> None:
    insert(run, run.db, run.payload.to)


def fail(run: Run) -> None:
    insert(run, run.db)
    raise ValueError("told to fail")


def retry(run: Run) -> None:
    if run.attempt == 1:
        raise Retry(timedelta(seconds=0.2))


def discard(run: Run) -> None:
    raise Discard("of no use")


def slow(run: Run) -> None:
    run.db.execute("select pg_sleep(%s)", (run.payload.get("seconds", 60),))
    insert(run, run.db)


def batch(runs: list) -> None:
    for run in runs:
        insert(run, run.db)


def snooze(run: Run) -> None:
    with transaction(run) as db:
        is_second = was_here(run, db)
        insert(run, db, "done" if is_second else "snoozed")
        if not is_second:
            raise Snooze(1)


def snooze_by_method(run: Run) -> None:
    with transaction(run) as db:
        is_second = was_here(run, db)
        insert(run, db, "done" if is_second else "snoozed")
        if not is_second:
            run.snooze(1)


def later(run: Run) -> None:
    raise Snooze(3600)


def sql(run: Run) -> dict:
    result = {"asked": None}
    with transaction(run, result) as db:
        db.execute(run.payload["sql"].replace("EXECUTION", str(run.execution_id)).replace("TOKEN", str(run.lease_token)))
        if "ask" in run.payload:
            result["asked"] = db.execute(run.payload["ask"]).fetchone()[0]
    return result


def returns_a_list(run: Run) -> list:
    return [1, 2]


def told(run: Run) -> None:
    def innermost() -> None:
        raise Told(run.payload["message"]) from KeyError("the cause")

    innermost()


def payload(run: Run) -> dict:
    return run.payload


def exact(run: Run) -> dict:
    return {"n": Decimal("123456789012345678901234567890")}


def refused(call) -> int:
    try:
        call()
    except TypeError:
        return 1
    return 0


def enqueues(run: Run) -> dict:
    with transaction(run, result := {}) as db:
        made = enqueue(db, "elsewhere", {"n": Decimal("123456789012345678901234567890")}, scope_id=7)
        many = enqueue_many(db, "elsewhere", [{}, {"list": [1]}], scope_ids=[8, 9])
        result["many"] = len(set(many) - {made})
        result["cancelled"] = [cancel(db, many[0]), cancel(db, many[0])]
        result["refused"] = refused(lambda: enqueue(db, "elsewhere", {}, runAt="tomorrow")) + refused(lambda: enqueue(db, "elsewhere", [1])) \
            + refused(lambda: enqueue_many(db, "elsewhere", [{}, "text"])) + refused(lambda: Worker("", concurrency=2))
    return result


def progress(run: Run) -> None:
    run.progress({"done": 0.5})
    run.sleep(3)


def wait(run: Run) -> dict:
    run.sleep(run.payload["seconds"])
    result = {"waited": True}
    with transaction(run, result) as db:
        insert(run, db)
    return result


def with_handlers(worker: Worker) -> Worker:
    handlers = {
        "effect": effect, "fail": fail, "retry": retry, "discard": discard, "dead": discard, "slow": slow, "snooze": snooze,
        "snooze by method": snooze_by_method, "later": later, "sql": sql, "list": returns_a_list, "told": told, "last": told, "payload": payload,
        "exact": exact, "enqueue": enqueues, "progress": progress, "wait": wait, "wait elsewhere": wait,
    }
    for job, handler in handlers.items():
        worker.job(job, handler)
    worker.job("typed", typed, payload=Mail)
    worker.job("batch", batch, batch=True)
    if given.declare:
        worker.job("beside", returns_a_list, schedule="30 8 * * mon", time_zone="Europe/Berlin")
    return worker


threads = [threading.Thread(target=with_handlers(made()).run) for _ in range(given.workers - 1)]
for thread in threads:
    thread.start()
with_handlers(made()).run()
for thread in threads:
    thread.join()
