"""pgqueuer: asyncpg and uvloop, as its benchmark; a queue manager with a connection of its own for each worker."""

import asyncio
import contextlib
import datetime
import time

import asyncpg
import uvloop
from pgqueuer.adapters.drivers.asyncpg import AsyncpgDriver
from pgqueuer.core.qm import QueueManager
from pgqueuer.core.sm import SchedulerManager
from pgqueuer.queries import Queries

from peers import Asked, Countdown, in_time, loops


def setup(asked: Asked) -> None:
    async def create(queries):
        await queries[0].install()
    _run(asked, create)


def enqueue(asked: Asked) -> dict:
    async def insert(queries):
        if asked.batch == 1:
            return await loops(asked, lambda worker: queries[worker].enqueue("bench", b'{"n": 1}'))
        many = ["bench"] * asked.batch, [b'{"n": 1}'] * asked.batch, [0] * asked.batch
        return await loops(asked, lambda worker: queries[worker].enqueue(*many))
    return _run(asked, insert)


def drain(asked: Asked) -> dict:
    """Until the last has run. Its end is written a batch at a time, so that up to one of each worker is not durable by then."""
    countdown = Countdown(asked.jobs)

    async def work(queries):
        async def bench(job):
            countdown.start()
            countdown.tick()

        managers = [QueueManager(one) for one in queries]
        for manager in managers:
            manager.entrypoint("bench")(bench)
        running = [
            asyncio.create_task(manager.run(batch_size=asked.batch, log_aggregation_interval=datetime.timedelta(0)))
            for manager in managers
        ]
        await countdown.finished.wait()
        for manager in managers:
            manager.shutdown.set()
        await asyncio.wait(running, timeout=10)
        return countdown.result()
    return _run(asked, work)


def fires(asked: Asked) -> dict:
    """Its scheduler runs a function in the process (here one that only looks at the time); crontabs with seconds."""
    late = []

    async def schedule(queries):
        manager = SchedulerManager(queries[0])
        instants = asked.instants()

        def handler(at):
            async def bench(schedule):
                late.append(time.time() - int(at))
                if len(late) == asked.jobs:
                    manager.shutdown.set()
            return bench

        for index, at in enumerate(instants):
            due = time.gmtime(at)
            manager.schedule(f"bench{index}", f"{due.tm_min} {due.tm_hour} * * * {due.tm_sec}")(handler(at))
        in_time(instants)
        with contextlib.suppress(asyncio.TimeoutError):
            await asyncio.wait_for(manager.run(), asked.timeout)
    _run(asked, schedule)
    return {"late": late}


def _run(asked, work):
    async def connected():
        connections = await asyncio.gather(*(
            asyncpg.connect(host=asked.host, user="app", database=asked.database) for _ in range(asked.workers)
        ))
        return await work([Queries(AsyncpgDriver(connection)) for connection in connections])
    return uvloop.run(connected())
