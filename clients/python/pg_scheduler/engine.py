"""A worker, whatever its handlers are: slots that claim and work, one task that hears of work, and one that sends heartbeats for all.

A slot is written once, as coroutines. With threads a slot's coroutines block their thread and never wait for the event loop."""

from __future__ import annotations

import asyncio
import json
import os
import signal
import socket
import threading
import time
from contextlib import AbstractAsyncContextManager, suppress
from typing import Any, Awaitable, Callable, Generic, Optional, Sequence, TypeVar
from uuid import UUID

import psycopg
from psycopg import sql
from psycopg.types.json import Jsonb

from . import core
from .core import Cancelled, Db, Discard, Handler, Hooks, LeaseLost, Rows, RunBase, Said

AnyRun = TypeVar("AnyRun", bound=RunBase[Any, Any])


class Engine(Generic[AnyRun, Db]):
    """`run_type` makes a run of a claim's row. How a slot's connection is made and used is said by the subclasses."""

    run_type: type[AnyRun]
    open: Callable[[], AbstractAsyncContextManager[Db]]
    begin: Callable[[Db], AbstractAsyncContextManager[object]]
    ask: Callable[[Db, Said], Awaitable[Rows]]
    #: Calls the handler of these runs, so that `interrupt` of each ends what it waits for.
    call: Callable[[Db, list[AnyRun], Handler], Awaitable[object]]

    def __init__(
        self, conninfo: str = "", queue: str = "default", *, slots: int = 1, batch: int = 1, poll: float = 5.0, grace: float = 30.0,
        max_runs: Optional[int] = None, hooks: Optional[Hooks] = None,
    ) -> None:
        """conninfo: a connection string; with several hosts the worker finds the primary. queue: which. slots: how many runs at a time, each
        with a connection. batch: how many executions a slot claims at once. poll: how often to look for work that no notification told of, in
        seconds. grace: how long runs may go on after `stop`, in seconds; then they are stopped and given back, without an attempt lost.
        max_runs: after so many that have ended it stops by itself."""
        if slots < 1 or batch < 1:
            raise ValueError("slots and batch are at least 1")
        self.conninfo, self.queue, self.slots, self.batch, self.poll, self.grace = core.primary(conninfo), queue, slots, batch, poll, grace
        self.max_runs, self.hooks = max_runs, hooks or Hooks()
        self.handlers: dict[str, Handler] = {}
        #: By their ids here: an execution may come again before its last run has ended.
        self.held: dict[int, AnyRun] = {}
        self._ended, self._counting, self._is_stopping = 0, threading.Lock(), False
        self._loop: Optional[asyncio.AbstractEventLoop] = None

    def job(
        self, job_name: str, function: Optional[Callable[..., Any]] = None, *, payload: Optional[Callable[[Any], Any]] = None, batch: bool = False
    ) -> Callable[..., Any]:
        """Has `function` called for the executions of a job, or `"*"`: of those that have no other handler; also as a decorator.

        payload: what makes the handler's payload of the JSON: a dataclass, or anything to call. batch: the handler gets a list of runs, in one
        transaction; they succeed or fail together. A dict that it returns (not of a batch) is the result in the ledger."""
        if function is None:
            return lambda decorated: self.job(job_name, decorated, payload=payload, batch=batch)
        if job_name in self.handlers:
            raise ValueError(f'job "{job_name}" has a handler already')
        self.handlers[job_name] = Handler(function, core.reader(payload), batch)
        return function

    def stop(self) -> None:
        """From any thread: claims nothing more. Runs go on for `grace` seconds. Before `run` it ends that at once."""
        self._is_stopping = True
        if self._loop is not None:
            self._loop.call_soon_threadsafe(self._stopping.set)

    async def rest(self, news: asyncio.Event) -> None:
        """Until there is news, or it is time to look."""
        with suppress(asyncio.TimeoutError):
            await asyncio.wait_for(news.wait(), core.jittered(self.poll))

    async def work(self, slots: int, until_idle: bool = False) -> int:
        """How many runs have ended."""
        self._stopping, self._news, self._beat, self._ended = asyncio.Event(), asyncio.Event(), asyncio.Event(), 0
        self._claimed = self.queue, self.batch, f"{socket.gethostname()}/{os.getpid()}"
        self._loop = asyncio.get_running_loop()  # from here on `stop` tells it; from before, slots know
        signals = (signal.SIGTERM, signal.SIGINT) if threading.current_thread() is threading.main_thread() else ()
        for number in signals:
            self._loop.add_signal_handler(number, self.stop)
        parts = self._listen, self._heartbeat, *[lambda: self.slot(until_idle)] * slots
        tasks = [asyncio.create_task(self._forever(part, until_idle)) for part in parts]
        stopping = asyncio.create_task(self._stopping.wait())
        try:
            await asyncio.wait([stopping, *tasks], return_when=asyncio.FIRST_COMPLETED)  # idle, or with an error
            self._is_stopping = True
            self._news.set()
            await asyncio.wait(tasks[2:], timeout=self.grace)
        finally:
            try:  # a cancel comes here at once, and is no reason to leave what runs as it is
                self._is_stopping = True
                self._news.set()
                for run in list(self.held.values()):
                    run.stop("shutdown")
                await asyncio.wait(tasks[2:], timeout=5.0)
            finally:
                for task in (stopping, *tasks):
                    task.cancel()
                for number in signals:
                    self._loop.remove_signal_handler(number)
                self._loop = None
                errors = await asyncio.gather(*tasks, return_exceptions=True)
                self._is_stopping = any(task.cancelled() for task in tasks[2:])  # a thread that still runs is to claim nothing
        for error in errors:
            if isinstance(error, Exception):
                raise error
        return self._ended

    async def _forever(self, part: Callable[[], Awaitable[None]], until_idle: bool) -> None:
        """Does its part on a connection, and on another one where that breaks: after a failover to the new primary. Who drains hears of it."""
        pause = 0.1
        while True:
            began = time.monotonic()
            try:
                return await part()
            except (psycopg.OperationalError, psycopg.NotSupportedError, psycopg.errors.ReadOnlySqlTransaction) as error:
                if until_idle:
                    raise
                if self._is_stopping and part != self._heartbeat:  # which is cancelled once no run is left
                    return
                pause = min(pause * 2, 10.0) if time.monotonic() - began < 10.0 else 0.1
                self.hooks.broken(error, pause)
                await asyncio.sleep(core.jittered(pause))

    async def _listen(self) -> None:
        async with await psycopg.AsyncConnection.connect(self.conninfo, autocommit=True) as db:
            for channel in (f"sched:{self.queue}", "sched:cancel"):
                await db.execute(sql.SQL("LISTEN {}").format(sql.Identifier(channel)))
            self._tell()  # what came before we listened
            async for heard in db.notifies():
                for run in list(self.held.values()) if heard.channel == "sched:cancel" else ():
                    if heard.payload == str(run.execution_id):  # anybody can say so: the ledger is asked
                        run.beat_at = float("-inf")
                        self._beat.set()
                self._tell()

    def _tell(self) -> None:
        """Wakes who waits. Who is about to wait has the event of before."""
        told, self._news = self._news, self._news if self._is_stopping else asyncio.Event()
        told.set()

    async def _heartbeat(self) -> None:
        """Extends all leases in one statement, three times in the shortest."""
        async with await psycopg.AsyncConnection.connect(self.conninfo, autocommit=True) as db:
            while self._loop is not None:  # before Python 3.12 `wait_for` may swallow a cancel
                due_in = [run.beat_at + run.lease_seconds / 3 - time.monotonic() for run in list(self.held.values())]
                with suppress(asyncio.TimeoutError):
                    await asyncio.wait_for(self._beat.wait(), min([1.0, *due_in]))
                self._beat.clear()
                held, now = list(self.held.values()), time.monotonic()
                if any(now >= run.beat_at + run.lease_seconds / 3 for run in held):
                    for run in held:
                        run.beat_at = now
                    for run, (answer,) in zip(held, await (await db.execute(core.HEARTBEAT, keys(held))).fetchall()):
                        if answer != "ok":
                            run.stop_reason = run.stop_reason or answer
                for run in held:
                    if run.stop_reason:  # also again: it may have been between two statements
                        run.stop(run.stop_reason)

    async def slot(self, until_idle: bool) -> None:
        async with self.open() as db:
            while not self._is_stopping:
                news = self._news
                runs = await self._claim(db)
                while runs:
                    runs = await self._work_on(db, runs) or await self._claim(db)  # where the last has failed
                if until_idle:
                    return
                await self.rest(news)

    async def _claim(self, db: Db) -> list[AnyRun]:
        return [] if self._is_stopping else self._take(await self.ask(db, (core.CLAIM, self._claimed)))

    def _take(self, rows: Rows) -> list[AnyRun]:
        """Holds what was claimed."""
        runs = [self.run_type(*row) for row in rows]
        self.held.update({id(run): run for run in runs})
        return runs

    def _handler(self, job_name: str) -> Handler:
        def unknown(_: object) -> None:
            raise LookupError(f'no handler for job "{job_name}" (this worker has: {", ".join(sorted(self.handlers)) or "none"})')

        return self.handlers.get(job_name) or self.handlers.get("*") or Handler(unknown, None, False)

    def _groups(self, runs: list[AnyRun]) -> list[list[AnyRun]]:
        """What is done in one transaction: a run, or the runs that a batch handler gets."""
        groups: dict[object, list[AnyRun]] = {}
        for run in runs:
            groups.setdefault(run.job_name if self._handler(run.job_name).is_batch else id(run), []).append(run)
        return list(groups.values())

    async def _work_on(self, db: Db, runs: list[AnyRun]) -> list[AnyRun]:
        """Does these runs; what was claimed with the end of the last."""
        next_runs: list[AnyRun] = []
        groups = self._groups(runs)
        try:
            for group in groups:
                try:
                    if self._is_stopping:
                        raise Cancelled("the worker ends")
                    next_runs = self._take(await self._together(db, group, group is groups[-1]))
                except (Exception, SystemExit) as error:
                    if db.broken:
                        raise psycopg.OperationalError(str(error)) from error
                    await self._report(db, group, error)
                else:
                    self._count(group)
                    for run in group:
                        self._tell_of(self.hooks.succeeded, run)
        except Exception:  # nobody works on these any more
            for run in (*runs, *next_runs):
                self.held.pop(id(run))
                with suppress(psycopg.Error):  # it has ended
                    await self.ask(db, (core.SNOOZE, (run.execution_id, run.lease_token)))
            raise
        finally:
            for run in runs:
                self.held.pop(id(run), None)
        return next_runs

    def _tell_of(self, hook: Callable[..., None], *what: object) -> None:
        """What a hook raises is not taken for a connection that broke."""
        try:
            hook(*what)
        except psycopg.Error as error:
            raise RuntimeError("a hook has failed") from error

    def _count(self, runs: Sequence[AnyRun]) -> None:
        with self._counting:
            self._ended += len(runs)
        if self.max_runs is not None and self._ended >= self.max_runs:
            self.stop()

    async def _together(self, db: Db, group: list[AnyRun], is_last: bool) -> Rows:
        """Calls the handler of these runs and ends them, in one transaction; what was claimed in it."""
        async with self.begin(db):
            handler = self._handler(group[0].job_name)
            for run in group:
                run.payload = json.loads(run.payload)
            with self.hooks.around(group[0]):
                if handler.payload is not None:
                    for run in group:
                        run.payload = handler.payload(run.payload)
                returned = await self.call(db, group, handler)
            core.check(group)
            return await self._finish(db, group, returned, is_last and not self._is_stopping)

    async def _finish(self, db: Db, group: Sequence[AnyRun], returned: object, claims: bool) -> Rows:
        """Ends the runs and claims the next, for the commit of what they wrote; raises where a lease is not theirs any more."""
        if isinstance(returned, dict) and len(group) == 1:
            await self.ask(db, (core.FINISH, (group[0].execution_id, group[0].lease_token, Jsonb(returned))))
            return await self.ask(db, (core.CLAIM, self._claimed)) if claims else ()
        rows = await self.ask(db, (core.FINISH_AND_CLAIM, (*keys(group), *self._claimed)) if claims else (core.FINISH_MANY, keys(group)))
        if rows[0][0]:
            raise LeaseLost("the lease is lost")
        return [row[1:] for row in rows if row[1] is not None] if claims else ()

    async def _report(self, db: Db, group: Sequence[AnyRun], error: BaseException) -> None:
        """Tells the ledger what became of runs whose transaction was rolled back."""
        # Where others of its batch were to stop, or the worker was before it began. (A handler that says Cancelled unasked has failed.)
        is_given_back = any(run.stop_reason for run in group) or isinstance(error, Cancelled if self._is_stopping else LeaseLost)
        for run in group:
            said = await self._say(db, run, error, is_given_back)
            if said is None:
                self._tell_of(self.hooks.lost, run)
            elif said[0] != core.SNOOZE:
                self._count([run])
                self._tell_of(self.hooks.failed, run, error)

    async def _say(self, db: Db, run: AnyRun, error: BaseException, is_given_back: bool) -> Optional[Said]:
        fixed = run.execution_id, run.lease_token, "handler_error", "its error cannot be written", None, isinstance(error, Discard)
        for left in 2, 1, 0:  # once more, for a cancel may come late; then what the ledger takes for sure
            try:
                said = core.outcome(run, error, is_given_back) if left else (core.FAIL, fixed)
                if said is not None:
                    await self.ask(db, said)
                return said
            except psycopg.errors.ObjectNotInPrerequisiteState:
                break
            except Exception:
                if db.broken or left == 0:
                    raise
        return None


def keys(runs: Sequence[RunBase[Any, Any]]) -> tuple[list[UUID], list[UUID]]:
    return [run.execution_id for run in runs], [run.lease_token for run in runs]
