"""The worker of asyncio, which calls coroutine functions. Each slot is a task."""

from __future__ import annotations

import asyncio
import inspect
from contextlib import AbstractAsyncContextManager, suppress
from typing import Any, Coroutine, Generator, Iterable, Mapping, Optional, Sequence

import psycopg
from psycopg import AsyncConnection, AsyncCursor
from psycopg.rows import tuple_row

from .engine import Engine
from .errors import Moment, TransactionEnded
from .hooks import Hooks
from .json_text import Json
from .runs import Call, Payload, RunBase
from .schedules import DeclaredSchedule
from .sessions import primary
from .statements import Rows, Statement
from .transport import Event, Source, Transport


class AsyncRun(RunBase[Payload, "AsyncConnection[Any]"]):
    """One attempt at an execution. A run that is to stop has its task cancelled."""

    __slots__ = ()

    def snooze(self, until: Moment) -> _Noted:
        """Gives the execution back until then (seconds from now, a timedelta, a datetime with a time zone) when the handler has returned.

        What the handler writes is committed with it, and the attempt does not count. Of a batch it holds for all runs. It may be awaited, or not."""
        self.call.snooze(until)
        return _Noted()

    async def progress(self, progress: Mapping[str, Any]) -> None:
        """Shows in `sched.running` at once, whatever the run's transaction does. A JSON object.

        Raises Cancelled or LeaseLost where the run is to stop."""
        await self.call.keeper.progress(self, progress)

    def finishing(self, result: object = None) -> AbstractAsyncContextManager[AsyncConnection[Any]]:
        """`async with run.finishing() as db:` with `transaction="finish"`: what is written in the block commits with the run's success, when it ends.

        result: a dict or list for the ledger, which the block may still fill. An exception rolls back; Snooze commits. Of a batch it ends all runs.
        Raises RuntimeError with `transaction="run"`, and for a second block."""
        return self.call.keeper.finishing(self.call, result)


class _Noted:
    """Has happened."""

    def __await__(self) -> Generator[None, None, None]:
        return
        yield


class AsyncWorker(Engine[AsyncRun[Any], "AsyncConnection[Any]"]):
    """Claims the executions of queues and calls the handlers of their jobs, which are coroutine functions."""

    run_type = AsyncRun

    def __init__(
        self, dsn: Source = "", queue: str = "default", *, queues: Optional[Mapping[str, int]] = None, slots: int = 1, batch: int = 1, poll: float = 5.0,
        grace: float = 5.0, max_runs: Optional[int] = None, hooks: Optional[Hooks] = None, transaction: str = "run", prepare: bool = True,
        listen_dsn: Optional[Source] = None, json: Json = "number", handle_signals: bool = True, schedules: Optional[Iterable[Mapping[str, Any]]] = None,
        schedule_group: Optional[str] = None,
    ) -> None:
        """The arguments of `Worker`. A function as dsn may be a coroutine function. With handle_signals=False the host, such as uvicorn, calls `stop`."""
        super().__init__(
            AsyncTransport(), dsn, queue, queues, slots, batch, poll, grace, max_runs, hooks, transaction, prepare, listen_dsn, json, handle_signals,
            schedules, schedule_group,
        )

    async def run(self) -> None:
        """Works until `stop`, SIGTERM or SIGINT, or the end of the interpreter. When this is cancelled, runs are given back at once."""
        await self.work()

    async def declare_schedules(self, db: AsyncConnection[Any], dry_run: bool = False) -> list[DeclaredSchedule]:
        """Declares on this connection, in your transaction, what `run` does at its start; what became of each schedule. For deployments and tests.

        dry_run: nothing is written. Raises ValueError without schedule_group, psycopg.Error as the server does."""
        return list(await self._declare_within(db, dry_run))

    async def drain(self) -> int:
        """Works until nothing is left to claim; how many runs have ended. For tests: what failed waits for its next attempt."""
        return await self.work(drains=True)


class _HandlersConnection(AsyncConnection[Any]):
    async def commit(self) -> None:
        raise TransactionEnded("COMMIT is the worker's to say")

    async def rollback(self) -> None:
        raise TransactionEnded("ROLLBACK is the worker's to say; a savepoint is `async with run.db.transaction():`")


class AsyncTransport(Transport["AsyncConnection[Any]"]):
    can_cancel = True

    async def connect(self, source: Source) -> AsyncConnection[Any]:
        made: Any = _HandlersConnection.connect(primary(source)) if isinstance(source, str) else source()
        db: AsyncConnection[Any] = await made if inspect.isawaitable(made) else made
        try:
            if not isinstance(db, AsyncConnection):
                raise TypeError(f"the function that makes connections returned no psycopg.AsyncConnection: {db!r}")
            await db.set_autocommit(True)
            return db
        except BaseException:
            if isinstance(db, AsyncConnection):
                await db.close()
            raise

    async def close(self, db: AsyncConnection[Any]) -> None:
        await db.close()

    def savepoint(self, db: AsyncConnection[Any]) -> AbstractAsyncContextManager[object]:
        return db.transaction()

    async def ask(self, db: AsyncConnection[Any], statement: Statement) -> Rows:
        async with AsyncCursor(db, row_factory=tuple_row) as cursor:
            await cursor.execute(*statement, binary=True)
            return await cursor.fetchall()

    async def script(self, db: AsyncConnection[Any], text: str) -> None:
        async with AsyncCursor(db, row_factory=tuple_row) as cursor:
            await cursor.execute(text.encode(), prepare=False)

    async def command(self, db: AsyncConnection[Any], text: str) -> None:
        await self.script(db, text)

    async def notifications(self, db: AsyncConnection[Any], seconds: float) -> Sequence[psycopg.Notify]:
        return [heard async for heard in db.notifies(timeout=seconds, stop_after=1)]

    async def call(self, call: Call[Any, AsyncConnection[Any]], argument: object) -> object:
        # A task of its own: only this is cancelled where the runs are to stop.
        task = asyncio.create_task(call.handler.function(argument))
        once = [task.cancel]  # psycopg waits for its statement to end after a cancel: another would cost the connection
        try:
            call.interrupt = lambda: once and once.pop()()
            call.check()
            await asyncio.wait([task])
            if task.cancelled():
                call.check()
                raise RuntimeError("the handler was cancelled, not by the worker")
            return task.result()
        finally:  # also where we are cancelled: the connection is its own until it has ended
            call.interrupt = None
            if task.cancel():
                await asyncio.wait([task])

    def event(self) -> Event:
        return asyncio.Event()

    async def wait(self, event: Event, seconds: float) -> None:
        assert isinstance(event, asyncio.Event)
        with suppress(asyncio.TimeoutError):
            await asyncio.wait_for(event.wait(), seconds)

    async def sleep(self, seconds: float) -> None:
        await asyncio.sleep(seconds)

    def semaphore(self, value: int) -> AbstractAsyncContextManager[object]:
        return asyncio.Semaphore(value)

    def start(self, part: Coroutine[Any, Any, None]) -> asyncio.Future[None]:
        return asyncio.create_task(part)
