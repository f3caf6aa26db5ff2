"""The same as conformance.py, with the worker of asyncio."""

import argparse
import asyncio
import logging
from dataclasses import dataclass
from datetime import timedelta
from decimal import Decimal

from pg_scheduler import AsyncRun, AsyncWorker, Discard, Hooks, Retry, Snooze, aenqueue

options = argparse.ArgumentParser()
options.add_argument("--queue", default="conformance")
options.add_argument("--slots", type=int, default=2)
options.add_argument("--batch", type=int, default=3)
options.add_argument("--transaction", default="run")
given = options.parse_args()
logging.basicConfig(level=logging.INFO)


class OnDead(Hooks):
    async def on_dead(self, run: AsyncRun) -> None:
        if run.job_name == "dead":
            await insert(run, "dead")


worker = AsyncWorker("", given.queue, slots=given.slots, batch=given.batch, grace=1.0, transaction=given.transaction, hooks=OnDead())


@dataclass
class Mail:
    to: str


class Told(Exception):
    """Its name is the ledger's error_code."""


async def insert(run: AsyncRun, what: str | None = None) -> None:
    await run.db.execute("insert into effect (execution_id, attempt, what) values (%s, %s, %s)", (run.execution_id, run.attempt, what))


async def was_here(run: AsyncRun) -> bool:
    found = await run.db.execute("select 1 from effect where execution_id = %s", (run.execution_id,))
    return await found.fetchone() is not None


@worker.job("effect")
async def effect(run: AsyncRun) -> dict:
    await insert(run)
    return {"done": run.payload.get("number")}


@worker.job("typed", payload=Mail)
async def typed(run: AsyncRun[Mail]) -> None:
    await insert(run, run.payload.to)


@worker.job("fail")
async def fail(run: AsyncRun) -> None:
    await insert(run)
    raise ValueError("told to fail")


@worker.job("retry")
async def retry(run: AsyncRun) -> None:
    if run.attempt == 1:
        raise Retry(timedelta(seconds=0.2))


@worker.job("discard")
async def discard(run: AsyncRun) -> None:
    raise Discard("of no use")


@worker.job("dead")
async def dead(run: AsyncRun) -> None:
    raise Discard("of no use")


@worker.job("slow")
async def slow(run: AsyncRun) -> None:
    await run.db.execute("select pg_sleep(%s)", (run.payload.get("seconds", 60),))
    await insert(run)


@worker.job("batch", batch=True)
async def batch(runs: list) -> None:
    for run in runs:
        await insert(run)


@worker.job("snooze")
async def snooze(run: AsyncRun) -> None:
    if not await was_here(run):
        await insert(run, "snoozed")
        raise Snooze(1)
    await insert(run, "done")


@worker.job("snooze by method")
async def snooze_by_method(run: AsyncRun) -> None:
    if await was_here(run):
        return await insert(run, "done")
    await run.snooze(timedelta(seconds=1))
    await insert(run, "snoozed")


@worker.job("snooze by hand")
async def snooze_by_hand(run: AsyncRun) -> None:
    if await was_here(run):
        return await insert(run, "done")
    await run.db.execute("select sched.snooze(%s, %s, clock_timestamp() + interval '1 s')", (run.execution_id, run.lease_token))
    await insert(run, "snoozed")


@worker.job("snooze at the end")
async def snooze_at_the_end(run: AsyncRun) -> None:
    async with run.finishing():
        is_second = await was_here(run)
        await insert(run, "done" if is_second else "snoozed")
        if not is_second:
            raise Snooze(1)


@worker.job("finish by hand")
async def finish_by_hand(run: AsyncRun) -> dict:
    await insert(run)
    await run.db.execute("select sched.finish_success(%s, %s, result => '{\"by\": \"hand\"}')", (run.execution_id, run.lease_token))
    return {"by": "the worker"}


@worker.job("list")
async def returns_a_list(run: AsyncRun) -> list:
    return [1, 2]


@worker.job("told")
async def told(run: AsyncRun) -> None:
    async def innermost() -> None:
        raise Told(run.payload["message"]) from KeyError("the cause")

    await innermost()


@worker.job("commit")
async def commit(run: AsyncRun) -> None:
    await run.db.execute("commit")


@worker.job("commit and begin")
async def commit_and_begin(run: AsyncRun) -> None:
    await run.db.execute("commit; begin")


@worker.job("session")
async def session(run: AsyncRun) -> dict | None:
    if run.payload.get("leave"):
        await run.db.execute("set search_path = pg_catalog; create temp table left_behind (); select pg_advisory_lock(7); set role other")
        return None
    query = "select current_user, current_setting('search_path'), to_regclass('pg_temp.left_behind') is not null," \
        " (select count(*) from pg_locks where locktype = 'advisory' and pid = pg_backend_pid())"
    found = await run.db.execute(query)
    return dict(zip(("role", "search_path", "temp", "locks"), await found.fetchone()))


@worker.job("number")
async def number(run: AsyncRun) -> dict:
    return run.payload


@worker.job("exact")
async def exact(run: AsyncRun) -> dict:
    return {"n": Decimal("123456789012345678901234567890")}


@worker.job("enqueue")
async def enqueues(run: AsyncRun) -> dict:
    await aenqueue(run.db, "effect", {"number": 8}, scope_id=7)
    refused = 0
    for payload, wrong in ({}, {"runAt": "tomorrow"}), ([1], {}):
        try:
            await aenqueue(run.db, "effect", payload, **wrong)
        except TypeError:
            refused += 1
    return {"refused": refused}


@worker.job("progress")
async def progress(run: AsyncRun) -> None:
    await run.progress({"done": 0.5})
    await asyncio.sleep(3)


@worker.job("serializable")
async def serializable(run: AsyncRun) -> None:
    await run.db.execute("set transaction isolation level serializable")
    await run.db.execute("insert into counted select coalesce(max(n), 0) + 1 from counted")
    await run.db.execute("select pg_sleep(2.5)")


@worker.job("wait")
async def wait(run: AsyncRun) -> None:
    await asyncio.sleep(run.payload["seconds"])
    result = {}
    async with run.finishing(result):
        await insert(run)
        result["waited"] = True


asyncio.run(worker.run())
