"""The same as conformance.py, with the worker of asyncio."""

import argparse
import asyncio
import logging
from contextlib import asynccontextmanager
from dataclasses import dataclass
from datetime import timedelta
from decimal import Decimal

from pg_scheduler import AsyncRun, AsyncWorker, Discard, Hooks, Retry, Snooze, acancel, aenqueue, aenqueue_many

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
    async def on_dead(self, run: AsyncRun) -> None:
        if run.job_name != "discard":
            await insert(run, run.db, "dead")


declared = {"schedules": [{"schedule_name": "declared", "clock": "0 6 * * *", "job_name": "effect"}], "schedule_group": "conformance"}


def made() -> AsyncWorker:
    return AsyncWorker(
        "", queues={queue: int(slots) for queue, slots in (word.split("=") for word in given.queues.split(","))}, batch=given.batch, grace=1.0,
        transaction=given.transaction, hooks=OnDead(), json="decimal" if given.json == "exact" else "number", prepare=given.prepare == "on",
        listen_dsn=f"host={given.listen} port=5432" if given.listen else None, **(declared if given.declare else {}),
    )


@dataclass
class Mail:
    to: str


class Told(Exception):
    """Its name is the ledger's error_code."""


@asynccontextmanager
async def transaction(run: AsyncRun, result: object = None):
    if given.transaction == "run":
        yield run.db
    else:
        async with run.finishing(result) as db:
            yield db


async def insert(run: AsyncRun, db, what: str | None = None) -> None:
    await db.execute("insert into effect (execution_id, attempt, what) values (%s, %s, %s)", (run.execution_id, run.attempt, what))


async def was_here(run: AsyncRun, db) -> bool:
    found = await db.execute("select 1 from effect where execution_id = %s", (run.execution_id,))
    return await found.fetchone() is not None


async def effect(run: AsyncRun) -> dict:
    await insert(run, run.db)
    return {"done": run.payload.get("number")}


async def typed(run: AsyncRun) -> None:
    await insert(run, run.db, run.payload.to)


async def fail(run: AsyncRun) -> None:
    await insert(run, run.db)
    raise ValueError("told to fail")


async def retry(run: AsyncRun) -> None:
    if run.attempt == 1:
        raise Retry(timedelta(seconds=0.2))


async def discard(run: AsyncRun) -> None:
    raise Discard("of no use")


async def slow(run: AsyncRun) -> None:
    await run.db.execute("select pg_sleep(%s)", (run.payload.get("seconds", 60),))
    await insert(run, run.db)


async def batch(runs: list) -> None:
    for run in runs:
        await insert(run, run.db)


async def snooze(run: AsyncRun) -> None:
    async with transaction(run) as db:
        is_second = await was_here(run, db)
        await insert(run, db, "done" if is_second else "snoozed")
        if not is_second:
            raise Snooze(1)


async def snooze_by_method(run: AsyncRun) -> None:
    async with transaction(run) as db:
        is_second = await was_here(run, db)
        await insert(run, db, "done" if is_second else "snoozed")
        if not is_second:
            await run.snooze(1)


async def later(run: AsyncRun) -> None:
    raise Snooze(3600)


async def sql(run: AsyncRun) -> dict:
    result = {"asked": None}
    async with transaction(run, result) as db:
        await db.execute(run.payload["sql"].replace("EXECUTION", str(run.execution_id)).replace("TOKEN", str(run.lease_token)))
        if "ask" in run.payload:
            result["asked"] = (await (await db.execute(run.payload["ask"])).fetchone())[0]
    return result


async def returns_a_list(run: AsyncRun) -> list:
    return [1, 2]


async def told(run: AsyncRun) -> None:
    async def innermost() -> None:
        raise Told(run.payload["message"]) from KeyError("the cause")

    await innermost()


async def payload(run: AsyncRun) -> dict:
    return run.payload


async def exact(run: AsyncRun) -> dict:
    return {"n": Decimal("123456789012345678901234567890")}


async def refused(call) -> int:
    try:
        await call()
    except TypeError:
        return 1
    return 0


async def enqueues(run: AsyncRun) -> dict:
    async with transaction(run, result := {}) as db:
        made = await aenqueue(db, "elsewhere", {"n": Decimal("123456789012345678901234567890")}, scope_id=7)
        many = await aenqueue_many(db, "elsewhere", [{}, {"list": [1]}], scope_ids=[8, 9])
        result["many"] = len(set(many) - {made})
        result["cancelled"] = [await acancel(db, many[0]), await acancel(db, many[0])]
        result["refused"] = await refused(lambda: aenqueue(db, "elsewhere", {}, runAt="tomorrow")) + await refused(lambda: aenqueue(db, "elsewhere", [1])) \
            + await refused(lambda: aenqueue_many(db, "elsewhere", [{}, "text"])) + await refused(lambda: AsyncWorker("", concurrency=2).run())
    return result


async def progress(run: AsyncRun) -> None:
    await run.progress({"done": 0.5})
    await asyncio.sleep(3)


async def wait(run: AsyncRun) -> dict:
    await asyncio.sleep(run.payload["seconds"])
    result = {"waited": True}
    async with transaction(run, result) as db:
        await insert(run, db)
    return result


def with_handlers(worker: AsyncWorker) -> AsyncWorker:
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


async def main() -> None:
    await asyncio.gather(*[with_handlers(made()).run() for _ in range(given.workers)])


asyncio.run(main())
