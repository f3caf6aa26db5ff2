"""A worker process: `python -m shop.worker`. Two workers in one event loop, since one waits for the database and one for an API."""

import asyncio
import os
import random
from dataclasses import dataclass
from typing import Any

import httpx
from pg_scheduler import AsyncRun, AsyncWorker, Snooze

from .database import DIRECT, POOLED, named

#: Where the payment provider answers.
PAYMENTS = os.environ.get("SHOP_PAYMENTS", "http://127.0.0.1:8000").split(",")

#: The transaction of a run is open while its handler runs: right for work that is short, or that the database does.
stock = AsyncWorker(named(POOLED, "shop stock"), queue="shop stock", slots=8, listen_dsn=named(DIRECT, "shop stock listens"))

#: A handler has no connection while it waits for the API: 40 slots, and at most 10 connections.
charges = AsyncWorker(named(POOLED, "shop charges"), queue="shop charges", slots=40, transaction="finish",
                      listen_dsn=named(DIRECT, "shop charges listens"))

provider = httpx.AsyncClient(timeout=30)


@dataclass
class OfOrder:
    order_id: str
    seconds: float


@stock.job("shop reserve", payload=OfOrder)
async def reserve(run: AsyncRun[OfOrder]) -> None:
    await asyncio.sleep(run.payload.seconds)  # pretends to look through the warehouse
    await run.db.execute("INSERT INTO reservation VALUES (%s, %s, %s)", (run.payload.order_id, run.execution_id, run.attempt))


@stock.job("shop report")
async def report(run: AsyncRun[Any]) -> None:
    await run.db.execute("INSERT INTO sales_report SELECT %s, count(*) FROM placed_order", (run.plan_time,))


@charges.job("shop charge", payload=OfOrder)
async def charge(run: AsyncRun[OfOrder]) -> None:
    try:  # the key is the same in each attempt, so the provider takes the money once
        answer = await provider.post(f"{random.choice(PAYMENTS)}/payments", json={"seconds": run.payload.seconds},
                                     headers={"Idempotency-Key": str(run.execution_id)})
    except httpx.TransportError as error:
        raise Snooze(1) from error  # it is away: again in a second, and no attempt is used up
    if answer.status_code >= 500:
        raise Snooze(1)
    answer.raise_for_status()  # it says no: the attempt has failed
    async with run.finishing() as db:
        await db.execute("INSERT INTO payment VALUES (%s, %s, %s, %s)",
                         (run.payload.order_id, run.execution_id, run.attempt, answer.json()["receipt"]))


async def work() -> None:
    async with provider:
        await asyncio.gather(stock.run(), charges.run())  # until SIGTERM, which stops both


if __name__ == "__main__":
    asyncio.run(work())
