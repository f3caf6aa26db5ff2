"""The worker whose handlers are plain functions: each slot has a thread and a connection. What it hears and its heartbeats are asyncio's."""

from __future__ import annotations

import asyncio
import threading
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, field
from typing import Any, Callable, Generic, Optional, Sequence

import psycopg

from .asyncio import Engine
from .core import Payload, Result, Rows, RunBase, Steps

Connection = psycopg.Connection[Any]


@dataclass
class Run(RunBase[Payload], Generic[Payload]):
    """One attempt at an execution. `db` is in the transaction that its success commits in."""

    db: Connection = field(init=False, repr=False)
    to_stop: Optional[threading.Event] = field(default=None, init=False, repr=False)

    def sleep(self, seconds: float) -> None:
        """Waits for so long, and raises Cancelled or LeaseLost as soon as the run is to stop."""
        self.to_stop = event = self.to_stop or threading.Event()
        self.check()  # who stops it now finds the event
        event.wait(seconds)
        self.check()


class Worker(Engine[Run[Any], psycopg.Connection[Any]]):
    """Claims the executions of a queue and calls the handlers of their jobs, in threads."""

    run_type = Run

    def __init__(self, *arguments: Any, **options: Any) -> None:
        super().__init__(*arguments, **options)
        self._lock = threading.Lock()
        self._threads = ThreadPoolExecutor(self.slots + 2, "pg_scheduler")
        self._loop: Optional[asyncio.AbstractEventLoop] = None

    def run(self) -> None:
        """Works until `stop`, SIGTERM or SIGINT."""
        asyncio.run(self._with_loop(self.work))

    def drain(self) -> int:
        """Works until nothing is left to claim; how many runs have ended. For tests: what failed waits for its next attempt."""
        return int(asyncio.run(self._with_loop(self.drained)))

    def stop(self) -> None:
        """From any thread: claims nothing more. Runs go on for `grace` seconds."""
        if self._loop is not None:
            self._loop.call_soon_threadsafe(super().stop)

    async def _with_loop(self, work: Callable[[], Any]) -> Any:
        self._loop = asyncio.get_running_loop()
        self._stopping, self._news = asyncio.Event(), asyncio.Event()
        return await work()

    async def _in_thread(self, call: Callable[..., Result], *arguments: Any) -> Result:
        return await asyncio.get_running_loop().run_in_executor(self._threads, call, *arguments)

    async def open(self) -> Connection:
        return await self._in_thread(lambda: psycopg.connect(self.conninfo, autocommit=True))

    async def close(self, db: Connection) -> None:
        await self._in_thread(db.close)

    async def do(self, db: Connection, steps: Steps[Result]) -> Result:
        return await self._in_thread(self._do, db, steps)

    async def together(self, db: Connection, group: list[Run[Any]], claims: bool) -> Rows:
        return await self._in_thread(self._together, db, group, claims)

    def stop_run(self, run: Run[Any], reason: str) -> None:
        run.stop_reason = run.stop_reason or reason
        if run.to_stop is not None:
            run.to_stop.set()
        self._threads.submit(self._interrupt, run)

    def _interrupt(self, run: Run[Any]) -> None:
        """Ends the statement that a run waits for. Under the lock, so that the connection is still that run's."""
        with self._lock:
            if hasattr(run, "db"):
                run.db.cancel_safe()

    def _together(self, db: Connection, group: list[Run[Any]], claims: bool) -> Rows:
        handler = self.handler(group[0].job_name)
        try:
            with db.transaction():
                for run in group:
                    run.check()
                    run.payload, run.db = handler.payload(run.payload), db
                with self.hooks.around(group[0]):
                    returned = handler.function(group if handler.is_batch else group[0])
                self._release(group)
                return self._do(db, self.finish(group, returned, claims and not self._stopping.is_set()))
        finally:
            self._release(group)

    def _release(self, group: Sequence[Run[Any]]) -> None:
        with self._lock:
            for run in group:
                run.__dict__.pop("db", None)

    @staticmethod
    def _do(db: Connection, steps: Steps[Result]) -> Result:
        try:
            said = next(steps)
            while True:
                try:
                    rows = db.execute(*said, binary=True).fetchall()
                except psycopg.Error as error:
                    said = steps.throw(error)
                else:
                    said = steps.send(rows)
        except StopIteration as end:
            result: Result = end.value
            return result
