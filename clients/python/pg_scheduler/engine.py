"""A worker, whatever its handlers are: slots that claim and work, one part that hears of work, and one that sends heartbeats for all."""

from __future__ import annotations

import asyncio
import itertools
import os
import secrets
import socket
import threading
import time
from contextlib import suppress
from datetime import timedelta
from typing import Any, Callable, Coroutine, Iterable, Mapping, Optional, Sequence, TypeVar, overload
from uuid import UUID

import psycopg
from psycopg import sql

from . import json_text, processes, statements
from .attempts import LOST, Attempts
from .hooks import Hooks, log
from .json_text import Json
from .runs import AnyRun, Call, Db, Handler, Place, keys
from .schedules import Declared, DeclaredSchedule
from .sessions import CallersSession, Pooler, Session, Sessions, is_statement_pooling
from .statements import CONFLICTS, ELSEWHERE, Statement
from .transport import Event, Source, Transport, jittered

Function = TypeVar("Function", bound=Callable[..., Any])

_NUMBERS = itertools.count(1)  # of the slots of this process
_POOL = 8  # connections of a worker whose handlers have none, besides two
_DELAY = 10.0  # seconds that a statement may take to the server
INTERRUPTED = 2.0  # seconds that interrupted runs have
SILENT = 1.0  # seconds that a server may say nothing while the worker ends
_LOCK_TIMEOUT = 2_000  # milliseconds that the worker's own connection waits for a lock, which a handler may hold


class _Undone(Exception):
    """Takes back what a dry run has written."""


class Engine(Attempts[AnyRun, Db]):
    """Claims the executions of queues and calls the handlers of their jobs."""

    def __init__(
        self, transport: Transport[Db], dsn: Source, queue: str, queues: Optional[Mapping[str, int]], slots: int, batch: int, poll: float, grace: float,
        max_runs: Optional[int], hooks: Optional[Hooks], transaction: str, prepare: bool, listen_dsn: Optional[Source], json: Json,
        handle_signals: bool, schedules: Optional[Iterable[Mapping[str, Any]]], schedule_group: Optional[str],
    ) -> None:
        if transaction not in ("run", "finish"):
            raise ValueError(f'transaction is "run" or "finish", not {transaction!r}')
        if queues is not None and (queue != "default" or slots != 1):
            raise ValueError("queues names all queues with their slots: leave out queue and slots")
        self.queues = dict(queues) if queues is not None else {queue: slots}
        if not self.queues or batch < 1 or any(number < 1 for number in self.queues.values()):
            raise ValueError("slots and batch are at least 1")
        self.declared = Declared(schedule_group, schedules)
        self.transport, self.dsn, self.listen_dsn, self.prepare = transport, dsn, listen_dsn, prepare
        self.batch, self.poll, self.grace, self.max_runs = batch, poll, grace, max_runs
        self.transaction, self.handle_signals, self.hooks = transaction, handle_signals, hooks or Hooks()
        self._read = json_text.reader_of(json)
        self.handlers: dict[str, Handler] = {}
        self.held: dict[int, AnyRun] = {}
        self.is_stopping = False
        self._ended, self._counting = 0, threading.Lock()
        self._loop: Optional[asyncio.AbstractEventLoop] = None

    @property
    def slots(self) -> int:
        """How many runs at a time."""
        return sum(self.queues.values())

    @overload
    def job(
        self, job_name: str, function: Function, *, payload: Optional[Callable[..., Any]] = None, batch: bool = False, schedule: Optional[str] = None,
        **options: Any,
    ) -> Function: ...
    @overload
    def job(
        self, job_name: str, function: None = None, *, payload: Optional[Callable[..., Any]] = None, batch: bool = False,
        schedule: Optional[str] = None, **options: Any,
    ) -> Callable[[Function], Function]: ...

    def job(
        self, job_name: str, function: Optional[Callable[..., Any]] = None, *, payload: Optional[Callable[..., Any]] = None, batch: bool = False,
        schedule: Optional[str] = None, **options: Any,
    ) -> Any:
        """Has `function` called for the executions of a job, or `"*"`: of those that have no other handler; also as a decorator.

        payload: what makes the handler's payload of the JSON: a dataclass, or anything to call. batch: the handler gets a list of runs, in one
        transaction; they succeed or fail together. A dict or list that it returns (not of a batch) is the result in the ledger.

        schedule: a clock. The schedule has the job's name, is one of the worker's `schedule_group`, and is declared when the worker starts. Beside
        it there are the arguments of `sched.create_schedule` (time_zone, catch_up, …), schedule_payload for its payload, and queue: where the job is
        defined if it is not, by default the worker's only queue. Raises ValueError without schedule_group, TypeError for an unknown option."""
        if function is None:
            return lambda decorated: self.job(job_name, decorated, payload=payload, batch=batch, schedule=schedule, **options)
        if job_name in self.handlers:
            raise ValueError(f'job "{job_name}" has a handler already')
        self.declared.beside_handler(job_name, schedule, options, self.queues)
        self.handlers[job_name] = Handler(function, json_text.maker_of(payload), batch)
        return function

    def stop(self) -> None:
        """From any thread: claims nothing more. Runs go on for `grace` seconds. Before `run` it ends that at once."""
        self.is_stopping = True
        loop = self._loop
        if loop is not None:
            try:
                loop.call_soon_threadsafe(self._stopping.set)
            except RuntimeError:  # closed in this moment: it has ended
                pass

    def _claims(self, place: Place) -> Statement:
        return statements.claim(place.queue, self.batch, place.runner_id)

    def _place(self, queue: str) -> Place:
        return Place(queue, f"{socket.gethostname()}/{os.getpid()}/{next(_NUMBERS)}/{secrets.token_hex(4)}")

    def _count(self, number: int) -> None:
        with self._counting:
            self._ended += number
        if self.max_runs is not None and self._ended >= self.max_runs:
            self.stop()

    def connect(self) -> None:
        """Connections are made when they are needed."""
        make, pooler = self.transport, Pooler(self.transport)
        size = self.slots if self.transaction == "run" else min(self.slots, _POOL)
        self.sessions = Sessions(make, self.dsn, size, self.prepare, pooler)
        self.control = Sessions(make, self.dsn, 1, self.prepare, pooler, _LOCK_TIMEOUT)
        self._listening = Sessions(make, self.dsn if self.listen_dsn is None else self.listen_dsn, 1, self.prepare, pooler)

    async def work(self, drains: bool = False, dispatches: bool = False) -> int:
        """Until `stop`, a signal or the end of the interpreter, or until nothing is left to claim; how many runs have ended.

        dispatches: what is due is fired first, and again when nothing is left."""
        self.connect()
        self._dispatches = dispatches
        self._stopping, self._ended, self._is_over, self._warned = asyncio.Event(), 0, False, False
        self._declaring, self._has_declared = self.transport.semaphore(1), False
        self._news, self._beat, self._halt = {queue: self.transport.event() for queue in self.queues}, self.transport.event(), self.transport.event()
        self.awaits_server = not drains
        self._loop = asyncio.get_running_loop()  # from here on `stop` tells it; from before, slots know
        with processes.working(self, self.handle_signals):
            return await self._work(drains)

    async def _work(self, drains: bool) -> int:
        slots = [self._drain] if drains else [self._slot_of(queue) for queue, number in self.queues.items() for _ in range(number)]
        beside = [self._heartbeats] if drains else [self._heartbeats, self._listen]
        tasks = [self.transport.start(self._forever(part, drains)) for part in (*beside, *slots)]
        working = tasks[len(beside):]
        stopping: asyncio.Future[Any] = asyncio.ensure_future(self._stopping.wait())
        try:
            await asyncio.wait((stopping, *tasks), return_when=asyncio.FIRST_COMPLETED)  # idle, or with an error
            self._halt_slots()
            await asyncio.wait(working, timeout=self.grace)
        finally:
            try:  # a cancel comes here at once, and is no reason to leave what runs as it is
                self._halt_slots()
                for run in list(self.held.values()):
                    run.stop("shutdown")
                await asyncio.wait(working, timeout=INTERRUPTED)
            finally:
                errors = await self._close(stopping, tasks, working)
        for error in errors:
            if isinstance(error, Exception):
                raise error
        return self._ended

    async def _close(self, stopping: asyncio.Future[Any], tasks: Sequence[asyncio.Future[None]], working: Sequence[asyncio.Future[None]]) -> Sequence[Any]:
        self._is_over, self.awaits_server = True, False
        self._beat.set()
        # A thread cannot be ended. Its work will not commit, as its lease is given up.
        left = list(self.held.values())
        for run in left:
            run.stop_reason = "lost"
        if left:
            await asyncio.wait([self.transport.start(self.give_back(left))], timeout=SILENT)
        if not self.transport.can_cancel:
            await asyncio.wait([task for task in tasks if task not in working], timeout=SILENT)
        for task in (stopping, *tasks):
            task.cancel()
        self._loop = None
        errors = await asyncio.gather(*tasks, return_exceptions=True)
        self.is_stopping = any(task.cancelled() for task in working)  # a thread that still runs is to claim nothing
        for sessions in (self.sessions, self.control, self._listening):
            await sessions.close()
        return errors

    def _halt_slots(self) -> None:
        self.is_stopping = True
        self._halt.set()
        for news in self._news.values():
            news.set()

    async def _forever(self, part: Callable[[], Coroutine[Any, Any, None]], drains: bool) -> None:
        """Does its part on a connection, and on another one where that breaks: after a failover to the new primary. Who drains hears of it."""
        pause = 0.1
        while True:
            began = time.monotonic()
            try:
                return await part()
            except CONFLICTS:  # only where it is to stop
                if self.is_stopping:
                    return
            except ELSEWHERE as error:
                if drains or is_statement_pooling(error):
                    raise
                if self._is_over or self.is_stopping and part != self._heartbeats:  # which goes on while runs do
                    return
                for sessions in (self.sessions, self.control, self._listening):
                    await sessions.close()  # of the same server, probably
                pause = min(pause * 2, 10.0) if time.monotonic() - began < 10.0 else 0.1
                self.hooks.broken(error, pause)
                if self.is_stopping:
                    await self.transport.sleep(jittered(0.2))
                else:
                    await self.transport.wait(self._halt, jittered(pause))

    async def _listen(self) -> None:
        async with self._listening.session() as session:
            if session.is_shared:
                self._warn_of_pooler()
                while not self._halt.is_set():
                    await self.transport.wait(self._halt, 60.0)
                return
            for channel in (*(f"sched:{queue}" for queue in self.queues), "sched:cancel"):
                await self.transport.script(session.db, sql.SQL("LISTEN {}").format(sql.Identifier(channel)).as_string(None))
            for queue in self.queues:  # of what came before we listened
                self._tell(queue)
            while not self._is_over:
                for heard in await self.transport.notifications(session.db, 0.5):
                    self._hear(heard)

    def _warn_of_pooler(self) -> None:
        if not self._warned:
            self._warned = True
            log.warning("a connection pooler in transaction mode loses what LISTEN would hear: the worker looks for work every %g s. Name a direct"
                        " connection in listen_dsn=, or a shorter time in poll=", self.poll)

    def _hear(self, heard: psycopg.Notify) -> None:
        self._tell(heard.channel.removeprefix("sched:"))
        for run in list(self.held.values()) if heard.channel == "sched:cancel" else ():
            if heard.payload == str(run.execution_id):  # anybody can say so: the ledger is asked
                run.is_doubtful = True
                self._beat.set()

    def _tell(self, queue: str) -> None:
        """Wakes who waits. Who is about to wait has the event of before."""
        told = self._news.get(queue)
        if told is not None:
            self._news[queue] = self.transport.event()
            told.set()

    async def _heartbeats(self) -> None:
        """Extends all leases in one statement, three times in the shortest."""
        while not self._is_over:
            due_in = [run.beat_at + run.lease_seconds / 3 - time.monotonic() for run in list(self.held.values())]
            await self.transport.wait(self._beat, max(0.0, min([1.0, *due_in])))
            self._beat.clear()
            held, now = list(self.held.values()), time.monotonic()
            if any(run.is_doubtful or now >= run.beat_at + run.lease_seconds / 3 for run in held):
                await self._extend(held, now)
            for run in held:
                if run.stop_reason:  # also again: it may have been between two statements
                    run.stop(run.stop_reason)

    async def _extend(self, held: list[AnyRun], now: float) -> None:
        for run in held:
            run.is_doubtful = False
        async with self.control.session() as session:
            answers = await session.say(statements.heartbeat(keys(held)), lambda: self._is_over)
        for run, (answer,) in zip(held, answers):
            run.beat_at = now
            if answer != "ok":
                run.stop_reason = run.stop_reason or str(answer)

    def _slot_of(self, queue: str) -> Callable[[], Coroutine[Any, Any, None]]:
        place = self._place(queue)

        async def slot() -> None:
            await self._declare()
            while not self.is_stopping:
                news = self._news[queue]
                await self._work_off(place)
                if not self.is_stopping:
                    await self.transport.wait(news, jittered(self.poll))

        return slot

    async def claim(self, place: Place, session: Session[Db]) -> list[Call[AnyRun, Db]]:
        if self.is_stopping:
            return []
        if place.is_unanswered:
            await self._give_back_unanswered(session, place)
        place.is_unanswered = True
        is_followed = self.transaction == "run"  # by their own transactions
        calls = self._take(await session.say(self._claims(place), lambda: self.is_stopping, is_followed_by_rows=is_followed))
        place.is_unanswered = False
        return calls

    async def _give_back_unanswered(self, session: Session[Db], place: Place) -> None:
        """What was claimed where a connection broke in the commit: nobody works on it, and its lease would run out."""
        since = timedelta(seconds=time.monotonic() - place.began_at + _DELAY)
        for execution_id, lease_token in await session.say(statements.unanswered(place.runner_id, since), lambda: self.is_stopping):
            with suppress(LOST):
                await session.say(statements.snooze(UUID(str(execution_id)), UUID(str(lease_token))), lambda: self.is_stopping)

    async def _work_off(self, place: Place) -> bool:
        """Until nothing is left to claim; whether there was anything."""
        was_there = False
        async with self.sessions.session() as session:
            calls = await self.claim(place, session)
            while calls and self.transaction == "run":
                was_there = True
                calls = await self.work_on(place, calls, session) or await self.claim(place, session)  # where the last has failed
        while calls:  # whose handlers have no connection
            was_there = True
            calls = await self.work_on(place, calls, None)
            if not calls:
                async with self.sessions.session() as session:
                    calls = await self.claim(place, session)
        return was_there

    async def _declare(self) -> None:
        """Declares the worker's schedules, where no slot has yet; it waits for the one that does."""
        if self.declared.group is None:
            return
        async with self._declaring:
            if self._has_declared or self.is_stopping:
                return
            async with self.sessions.session() as session:

                async def once() -> Sequence[DeclaredSchedule]:
                    async with session.transaction():
                        return await self.declared.declare(session.ask, list(self.queues))

                try:
                    rows: Sequence[DeclaredSchedule] = await session.again_at_conflict(once, lambda: self.is_stopping)
                except (psycopg.NotSupportedError, psycopg.errors.ProgramLimitExceeded) as error:  # no other server would take it
                    raise RuntimeError(f'the schedules of group "{self.declared.group}" cannot be declared: {error}') from error
            self._has_declared = True
        for row in rows:
            if row.action != "unchanged":
                log.info('schedule "%s": %s%s', row.schedule_name, row.action, f": {row.detail}" if row.detail else "")

    async def _declare_within(self, db: Db, dry_run: bool) -> Sequence[DeclaredSchedule]:
        """The same on a connection of who calls."""
        session = Session(self.transport, db, is_own=False)
        await session.join()
        try:
            async with session.transaction():
                rows = await self.declared.declare(session.ask, list(self.queues))
                if dry_run:
                    raise _Undone
        except _Undone:
            pass
        return rows

    async def _drain(self) -> None:
        places = [self._place(queue) for queue in self.queues]
        while True:
            fired = await self._dispatch() if self._dispatches else 0
            while any([await self._work_off(place) for place in places]):
                pass
            if not fired or self.is_stopping:
                return

    async def _dispatch(self) -> int:
        """Fires what is due, as a dispatcher does; how many executions that has made."""
        async with self.sessions.session() as session:
            [[fired]] = await session.say(statements.DISPATCH, lambda: self.is_stopping)
        return int(str(fired))

    async def drain_within(self, db: Db) -> int:
        """What is due and what waits, on a connection of who calls, in a transaction of his, a savepoint for each run; without heartbeats."""
        session = Session(self.transport, db, is_own=False)
        await session.join()
        self.sessions = self.control = CallersSession(session)
        self.is_stopping, self._ended, self._dispatches = False, 0, True
        try:
            await self._drain()
        finally:
            self.is_stopping = False
        return self._ended
