"""The same as conformance.py, with the worker of asyncio."""

import argparse
import asyncio
from dataclasses import dataclass
from datetime import timedelta

from pg_scheduler import AsyncRun, AsyncWorker, Discard, Retry

options = argparse.ArgumentParser()
options.add_argument("--queue", default="conformance")
options.add_argument("--slots", type=int, default=2)
given = options.parse_args()
worker = AsyncWorker("", given.queue, slots=given.slots, batch=3, grace=1.0)


@dataclass
class Mail:
    to: str


async def insert(run: AsyncRun, what: str | None = None) -> None:
    await run.db.execute("insert into effect (execution_id, attempt, what) values (%s, %s, %s)", (run.execution_id, run.attempt, what))


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


@worker.job("slow")
async def slow(run: AsyncRun) -> None:
    await run.db.execute("select pg_sleep(%s)", (run.payload.get("seconds", 60),))
    await insert(run)


@worker.job("batch", batch=True)
async def batch(runs: list) -> None:
    for run in runs:
        await insert(run)


asyncio.run(worker.run())
