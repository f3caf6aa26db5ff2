"""The worker of asyncio: each slot is a task with a connection of its own, one more hears of work, and one sends heartbeats for all."""

from __future__ import annotations

import asyncio
import contextlib
import signal
import threading
import time
from dataclasses import dataclass, field
from typing import Any, Awaitable, Callable, Generic, Optional, Sequence, TypeVar

import psycopg
from psycopg import sql

from . import core
from .core import AnyRun, Base, Cancelled, Payload, Result, Rows, RunBase, Steps

Connection = psycopg.AsyncConnection[Any]
SlotConnection = TypeVar("SlotConnection", psycopg.AsyncConnection[Any], psycopg.Connection[Any])


@dataclass
class AsyncRun(RunBase[Payload], Generic[Payload]):
    """One attempt at an execution. `db` is in the transaction that its success commits in. A run that is to stop has its task cancelled."""

    db: Connection = field(init=False, repr=False)
    task: Optional[asyncio.Task[Any]] = field(default=None, init=False, repr=False)


class Engine(Base[AnyRun], Generic[AnyRun, SlotConnection]):
    """What both workers are, over a connection of a slot: how it is made, asked, and used for a run is theirs."""

    def __init__(self, *arguments: Any, **options: Any) -> None:
        super().__init__(*arguments, **options)
        self._stopping = asyncio.Event()
        self._news = asyncio.Event()

    async def open(self) -> SlotConnection:
        raise NotImplementedError

    async def close(self, db: SlotConnection) -> None:
        raise NotImplementedError

    async def do(self, db: SlotConnection, steps: Steps[Result]) -> Result:
        """Executes statements, one after the other."""
        raise NotImplementedError

    async def together(self, db: SlotConnection, group: list[AnyRun], claims: bool) -> Rows:
        """Calls the handler of these runs and ends them, in one transaction; what was claimed in it."""
        raise NotImplementedError

    def stop_run(self, run: AnyRun, reason: str) -> None:
        """Has a run stop."""
        raise NotImplementedError

    def stop(self) -> None:
        """Claims nothing more. Runs go on for `grace` seconds."""
        self._stopping.set()
        self._news.set()

    async def work(self) -> None:
        if threading.current_thread() is threading.main_thread():
            for number in (signal.SIGTERM, signal.SIGINT):
                asyncio.get_running_loop().add_signal_handler(number, self.stop)
        helpers = [asyncio.create_task(self._forever(part)) for part in (self._listen, self._heartbeat)]
        slots = [asyncio.create_task(self._forever(self._slot)) for _ in range(self.slots)]
        await self._stopping.wait()
        _, running = await asyncio.wait(slots, timeout=self.grace)
        for run in list(self.held.values()):
            self.stop_run(run, "shutdown")
        if running:
            await asyncio.wait(running, timeout=5.0)
        for task in helpers + list(running):
            task.cancel()
        await asyncio.gather(*helpers, *slots, return_exceptions=True)

    async def drained(self) -> int:
        count, heartbeats, db = 0, asyncio.create_task(self._forever(self._heartbeat)), await self.open()
        try:
            runs = await self._claim(db)
            while runs and not self._stopping.is_set():
                count += len(runs)
                runs = await self._work(db, runs) or await self._claim(db)
        finally:
            heartbeats.cancel()
            await self.close(db)
        return count

    async def _forever(self, part: Callable[[], Awaitable[None]]) -> None:
        """Does its part on a connection, and on another one where that breaks: after a failover to the new primary."""
        pause = 0.1
        while True:
            began = time.monotonic()
            try:
                return await part()
            except psycopg.OperationalError as error:
                if self._stopping.is_set():
                    return
                pause = min(pause * 2, 10.0) if time.monotonic() - began < 10.0 else 0.1
                await asyncio.sleep(self.broke(error, pause))

    async def _listen(self) -> None:
        async with await psycopg.AsyncConnection.connect(self.conninfo, autocommit=True) as db:
            for channel in (f"sched:{self.queue}", "sched:cancel"):
                await db.execute(sql.SQL("LISTEN {}").format(sql.Identifier(channel)))
            self._news.set()  # what came before we listened
            async for heard in db.notifies():
                for run in list(self.held.values()):
                    if heard.payload == str(run.execution_id):
                        self.stop_run(run, "cancel")
                self._news.set()

    async def _heartbeat(self) -> None:
        async with await psycopg.AsyncConnection.connect(self.conninfo, autocommit=True) as db:
            while True:
                await asyncio.sleep(self.pause())
                held = self.due()
                answers = await (await db.execute(core.HEARTBEAT, core.keys(held))).fetchall() if held else []
                for run, (answer,) in zip(held, answers):
                    if answer != "ok":
                        self.stop_run(run, answer)

    async def _slot(self) -> None:
        db = await self.open()
        try:
            while not self._stopping.is_set():
                self._news.clear()
                runs = await self._claim(db)
                while runs:
                    runs = await self._work(db, runs)
                if not self._stopping.is_set():
                    with contextlib.suppress(asyncio.TimeoutError):
                        await asyncio.wait_for(self._news.wait(), core.jittered(self.poll))
        finally:
            await self.close(db)

    async def _claim(self, db: SlotConnection) -> list[AnyRun]:
        return self.take(await self.do(db, core.asked(self.claim)))

    async def _work(self, db: SlotConnection, runs: Sequence[AnyRun]) -> list[AnyRun]:
        """Does these runs; what was claimed with the end of the last."""
        next_runs: list[AnyRun] = []
        groups = self.groups(runs)
        try:
            for group in groups:
                try:
                    if self._stopping.is_set():
                        raise Cancelled("the worker ends")
                    next_runs = self.take(await self.together(db, group, group is groups[-1]))
                except Exception as error:
                    if db.broken:
                        raise psycopg.OperationalError(str(error)) from error
                    await self.do(db, self.report(group, error))
                else:
                    for run in group:
                        self.hooks.succeeded(run)
        finally:
            for run in runs:
                self.held.pop(run.lease_token, None)
        return next_runs


class AsyncWorker(Engine[AsyncRun[Any], psycopg.AsyncConnection[Any]]):
    """Claims the executions of a queue and calls the handlers of their jobs, which are coroutine functions."""

    run_type = AsyncRun

    async def run(self) -> None:
        """Works until `stop`, SIGTERM or SIGINT."""
        await self.work()

    async def drain(self) -> int:
        """Works until nothing is left to claim; how many runs have ended. For tests: what failed waits for its next attempt."""
        return await self.drained()

    async def open(self) -> Connection:
        return await psycopg.AsyncConnection.connect(self.conninfo, autocommit=True)

    async def close(self, db: Connection) -> None:
        await db.close()

    def stop_run(self, run: AsyncRun[Any], reason: str) -> None:
        run.stop_reason = run.stop_reason or reason
        if run.task is not None:
            run.task.cancel()

    async def together(self, db: Connection, group: list[AsyncRun[Any]], claims: bool) -> Rows:
        handler = self.handler(group[0].job_name)
        async with db.transaction():
            for run in group:
                run.check()
                run.payload, run.db = handler.payload(run.payload), db
            with self.hooks.around(group[0]):
                # A task of its own: only this is cancelled where the run is to stop.
                task = asyncio.create_task(handler.function(group if handler.is_batch else group[0]))
                for run in group:
                    run.task = task
                try:
                    returned = await task
                except asyncio.CancelledError:
                    if not task.cancelled():
                        task.cancel()
                        raise
                    raise Cancelled("stopped") from None
            return await self.do(db, self.finish(group, returned, claims and not self._stopping.is_set()))

    async def do(self, db: Connection, steps: Steps[Result]) -> Result:
        try:
            said = next(steps)
            while True:
                try:
                    rows = await (await db.execute(*said, binary=True)).fetchall()
                except psycopg.Error as error:
                    said = steps.throw(error)
                else:
                    said = steps.send(rows)
        except StopIteration as end:
            result: Result = end.value
            return result
