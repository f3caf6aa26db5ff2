"""The two workers: one calls plain functions, in threads, the other coroutine functions. Each slot has a connection."""

from __future__ import annotations

import asyncio
import inspect
import threading
from concurrent.futures import ThreadPoolExecutor
from contextlib import AbstractAsyncContextManager, asynccontextmanager
from typing import Any, AsyncIterator, Coroutine

from psycopg import AsyncConnection, Connection

from .core import Handler, Payload, Rows, RunBase, Said, check
from .engine import Engine


class AsyncRun(RunBase[Payload, AsyncConnection[Any]]):
    """One attempt at an execution. A run that is to stop has its task cancelled."""

    __slots__ = ()


class AsyncWorker(Engine[AsyncRun[Any], AsyncConnection[Any]]):
    """Claims the executions of a queue and calls the handlers of their jobs, which are coroutine functions."""

    run_type = AsyncRun

    async def run(self) -> None:
        """Works until `stop`, SIGTERM or SIGINT."""
        await self.work(self.slots)

    async def drain(self) -> int:
        """Works until nothing is left to claim; how many runs have ended. For tests: what failed waits for its next attempt."""
        return await self.work(1, until_idle=True)

    @asynccontextmanager
    async def open(self) -> AsyncIterator[AsyncConnection[Any]]:
        async with await AsyncConnection.connect(self.conninfo, autocommit=True) as db:
            yield db

    def begin(self, db: AsyncConnection[Any]) -> AbstractAsyncContextManager[object]:
        return db.transaction()

    async def ask(self, db: AsyncConnection[Any], said: Said) -> Rows:
        return await (await db.execute(*said, binary=True)).fetchall()

    async def call(self, db: AsyncConnection[Any], group: list[AsyncRun[Any]], handler: Handler) -> object:
        # A task of its own: only this is cancelled where the runs are to stop.
        task = asyncio.create_task(handler.function(group if handler.is_batch else group[0]))
        once = [task.cancel]  # psycopg waits for its statement to end after a cancel: another would cost the connection
        try:
            for run in group:
                run.db, run.interrupt = db, lambda: once and once.pop()()
            check(group)
            await asyncio.wait([task])
            if task.cancelled():
                check(group)
                raise RuntimeError("the handler was cancelled, not by the worker")
            return task.result()
        finally:  # also where we are cancelled: the connection is its own until it has ended
            if task.cancel():
                await asyncio.wait([task])


class Run(RunBase[Payload, Connection[Any]]):
    """One attempt at an execution."""

    __slots__ = ("over",)
    over: threading.Event

    def sleep(self, seconds: float) -> None:
        """Waits for so long, and raises Cancelled or LeaseLost as soon as the run is to stop."""
        self.over.wait(seconds)
        self.check()


class Worker(Engine[Run[Any], Connection[Any]]):
    """Claims the executions of a queue and calls the handlers of their jobs, in threads."""

    run_type = Run
    _threads: ThreadPoolExecutor

    def run(self) -> None:
        """Works until `stop`, SIGTERM or SIGINT."""
        self._run(self.slots, False)

    def drain(self) -> int:
        """Works until nothing is left to claim; how many runs have ended. For tests: what failed waits for its next attempt."""
        return self._run(1, True)

    def _run(self, slots: int, until_idle: bool) -> int:
        self._threads = ThreadPoolExecutor(slots + 2, "pg_scheduler")  # two that interrupt
        try:
            return asyncio.run(self.work(slots, until_idle))
        finally:
            self._threads.shutdown(wait=False)

    async def slot(self, until_idle: bool) -> None:
        await asyncio.get_running_loop().run_in_executor(self._threads, completed, super().slot(until_idle))

    async def rest(self, news: asyncio.Event) -> None:
        if self._loop is not None:
            asyncio.run_coroutine_threadsafe(super().rest(news), self._loop).result()

    @asynccontextmanager
    async def open(self) -> AsyncIterator[Connection[Any]]:
        with Connection.connect(self.conninfo, autocommit=True) as db:
            yield db

    @asynccontextmanager
    async def begin(self, db: Connection[Any]) -> AsyncIterator[None]:
        with db.transaction():
            yield

    async def ask(self, db: Connection[Any], said: Said) -> Rows:
        return db.execute(*said, binary=True).fetchall()

    async def call(self, db: Connection[Any], group: list[Run[Any]], handler: Handler) -> object:
        over, using, is_using = threading.Event(), threading.Lock(), True

        def cancel() -> None:
            with using:
                if is_using:  # the connection is still theirs
                    db.cancel_safe(timeout=5.0)

        def interrupt() -> None:
            over.set()
            self._threads.submit(cancel)

        try:
            for run in group:
                run.db, run.over, run.interrupt = db, over, interrupt
            check(group)
            returned = handler.function(group if handler.is_batch else group[0])
            if inspect.isawaitable(returned) or inspect.isgenerator(returned) or inspect.isasyncgen(returned):
                raise TypeError(f"the handler has not run: it returned {returned!r}")
            return returned
        finally:
            with using:
                is_using = False


def completed(coroutine: Coroutine[Any, Any, None]) -> None:
    """Runs a coroutine that blocks this thread where it waits."""
    try:
        coroutine.send(None)
    except StopIteration:
        return
    raise RuntimeError("a slot of a thread waited for the event loop")
