"""procrastinate: a pool with a connection for each worker, jobs deleted when they succeed, no LISTEN while a backlog is drained."""

import asyncio
import contextlib
import time

import procrastinate
import uvloop
from procrastinate import periodic

from peers import Asked, Countdown, in_time, loops


def setup(asked: Asked) -> None:
    async def create(app):
        await app.schema_manager.apply_schema_async()
    _run(asked, create)


def enqueue(asked: Asked) -> dict:
    async def insert(app):
        task = app.task(name="bench")(_nothing)
        if asked.batch == 1:
            return await loops(asked, lambda worker: task.defer_async(n=1))
        return await loops(asked, lambda worker: task.batch_defer_async(*[{"n": 1}] * asked.batch))
    return _run(asked, insert)


def drain(asked: Asked) -> dict:
    countdown = Countdown(asked.jobs)

    async def work(app):
        @app.task(name="bench")
        async def bench(n):
            countdown.start()
            countdown.tick()

        worker = asyncio.create_task(app.run_worker_async(
            concurrency=asked.workers, listen_notify=False, delete_jobs="successful", install_signal_handlers=False,
        ))
        await countdown.finished.wait()
        worker.cancel()
        with contextlib.suppress(asyncio.CancelledError):
            await worker
        return countdown.result()
    return _run(asked, work)


def fires(asked: Asked) -> dict:
    """Its periodic deferrer alone. Its crontabs have seconds as a sixth field, and it wakes half a second late by design."""
    late = []

    async def defer(app):
        task = app.task(name="bench", pass_context=False)(_nothing)
        instants = asked.instants()
        for index, at in enumerate(instants):
            due = time.gmtime(at)
            cron = f"{due.tm_min} {due.tm_hour} * * * {due.tm_sec}"
            app.periodic(cron=cron, periodic_id=str(index))(task)
        deferrer = periodic.PeriodicDeferrer(registry=app.periodic_registry)
        manager, done = app.job_manager, asyncio.Event()
        defer_job = manager.defer_periodic_job

        async def noted(*, defer_timestamp, **more):
            found = await defer_job(defer_timestamp=defer_timestamp, **more)
            late.append(time.time() - defer_timestamp)
            if len(late) == asked.jobs:
                done.set()
            return found

        manager.defer_periodic_job = noted
        in_time(instants)
        loop = asyncio.create_task(deferrer.worker())
        await asyncio.wait({loop, asyncio.create_task(done.wait())}, return_when=asyncio.FIRST_COMPLETED)
        loop.cancel()
    _run(asked, defer)
    return {"late": late}


async def _nothing(timestamp=0, n=0):
    pass


def _run(asked, work):
    connector = procrastinate.PsycopgConnector(
        kwargs={"host": asked.host, "user": "app", "dbname": asked.database}, min_size=asked.workers, max_size=asked.workers + 2,
    )
    app = procrastinate.App(connector=connector)

    async def opened():
        async with app.open_async():
            return await work(app)
    return uvloop.run(opened())
