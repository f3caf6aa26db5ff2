"""For the tests of an application: work off what it has enqueued, look at what waits, and move the clock of a database in test mode."""

from __future__ import annotations

import asyncio
import json
from collections import Counter
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from datetime import datetime, timedelta
from typing import Any, Awaitable, Iterator, Mapping, Optional, Union, overload
from uuid import UUID

from psycopg import AsyncConnection, AsyncCursor, Connection, Cursor
from psycopg.errors import ObjectNotInPrerequisiteState
from psycopg.rows import tuple_row
from psycopg.types.json import Jsonb

from ..aio import AsyncWorker
from ..functions import driver_connection
from ..hooks import Hooks
from ..json_text import dumps
from ..runs import RunBase
from ..statements import Statement
from ..threads import Worker, completed

Statuses = dict[str, int]


@dataclass(frozen=True)
class Execution:
    """One that waits."""

    execution_id: UUID
    job_name: str
    payload: dict[str, Any]
    scope_kind: str
    scope_id: str
    plan_time: datetime
    #: Before this nobody claims it; None: at once.
    run_at: Optional[datetime]
    queue: str
    priority: int
    #: Those that it has had.
    attempt: int


@overload
def drain(worker: Worker, raise_errors: bool = True, connection: Any = None) -> Statuses: ...
@overload
def drain(worker: AsyncWorker, raise_errors: bool = True, connection: Any = None) -> Awaitable[Statuses]: ...


def drain(worker: Worker | AsyncWorker, raise_errors: bool = True, connection: Any = None) -> Statuses | Awaitable[Statuses]:
    """Fires what is due, and works until nothing is left to claim; statuses of what it has worked on, as they are now, with their counts:
    `{"SUCCESS": 2}`. So after `advance(db, "3 days")` it does what three days would have brought.

    raise_errors: raises the first exception of a handler, with its stack; the ledger has the failure. With False it counts as FAILED.
    connection: of psycopg, or Django's. With it all is done in its transaction, in this thread, a savepoint for each run; it may be rolled back.
    Without it the worker connects, and sees what is committed. An AsyncWorker's is to be awaited."""
    return _adrain(worker, raise_errors, connection) if isinstance(worker, AsyncWorker) else _drain(worker, raise_errors, connection)


def _drain(worker: Worker, raise_errors: bool, connection: Any) -> Statuses:
    db = driver_connection(connection) if connection is not None else None
    with _Recorded(worker, raise_errors, connection) as recorded:
        if db is None:
            asyncio.run(worker.work(drains=True, dispatches=True))
        else:
            completed(worker.drain_within(db))
        recorded.raise_first()
    if db is not None:
        return _counted(db, recorded)
    return asyncio.run(_seen(worker, recorded))


async def _adrain(worker: AsyncWorker, raise_errors: bool, connection: Optional[AsyncConnection[Any]]) -> Statuses:
    with _Recorded(worker, raise_errors) as recorded:
        if connection is None:
            await worker.work(drains=True, dispatches=True)
        else:
            await worker.drain_within(connection)
        recorded.raise_first()
    if connection is None:
        return await _seen(worker, recorded)
    async with AsyncCursor(connection, row_factory=tuple_row) as cursor:
        await cursor.execute(*recorded.statuses())
        return dict(await cursor.fetchall())


def _counted(db: Connection[Any], recorded: _Recorded) -> Statuses:
    with Cursor(db, row_factory=tuple_row) as cursor:
        return dict(cursor.execute(*recorded.statuses()).fetchall())


async def _seen(worker: Worker | AsyncWorker, recorded: _Recorded) -> Statuses:
    """On a connection of the worker's."""
    async with worker.sessions.session() as session:
        rows: Any = await session.say(recorded.statuses(), lambda: True)
    await worker.sessions.close()
    return dict(rows)


class _Recorded(Hooks):
    """Hears what the worker's own hooks hear."""

    def __init__(self, worker: Worker | AsyncWorker, raise_errors: bool, connection: Any = None) -> None:
        self._worker, self._hooks, self._raises, self._connection = worker, worker.hooks, raise_errors, connection
        self._ids, self._errors = set[UUID](), list[BaseException]()

    def __enter__(self) -> _Recorded:
        self._worker.hooks = self
        return self

    def __exit__(self, *_: object) -> None:
        self._worker.hooks = self._hooks

    def raise_first(self) -> None:
        if self._raises and self._errors:
            raise self._errors[0]

    def statuses(self) -> Statement:
        return Statement("SELECT status, count(*) FROM sched.execution WHERE id = ANY (%s) GROUP BY 1 ORDER BY 1", (list(self._ids),))

    @contextmanager
    def around(self, run: RunBase[Any, Any]) -> Iterator[None]:
        self._ids.add(run.execution_id)
        was_broken = getattr(self._connection, "needs_rollback", False)
        try:
            with self._hooks.around(run):
                yield
        finally:
            # After an error of the ORM Django refuses all queries. It does not know of the run's savepoint, which takes the error back.
            if getattr(self._connection, "needs_rollback", False) and not was_broken:
                self._connection.needs_rollback = False

    def succeeded(self, run: RunBase[Any, Any]) -> None:
        self._ids.add(run.execution_id)  # of a batch only the first is seen before
        self._hooks.succeeded(run)

    def snoozed(self, run: RunBase[Any, Any]) -> None:
        self._ids.add(run.execution_id)
        self._hooks.snoozed(run)

    def failed(self, run: RunBase[Any, Any], error: BaseException) -> None:
        self._ids.add(run.execution_id)
        self._errors.append(error)
        self._hooks.failed(run, error)
        if self._raises:
            self._worker.stop()

    def on_dead(self, run: RunBase[Any, Any]) -> Optional[Awaitable[None]]:
        return self._hooks.on_dead(run)

    def hears_of_dead(self) -> bool:
        return self._hooks.hears_of_dead()

    def lost(self, run: RunBase[Any, Any]) -> None:
        self._hooks.lost(run)

    def broken(self, error: BaseException, pause: float) -> None:
        self._hooks.broken(error, pause)


# The payload as text: Django's connections read jsonb as text as well.
_WAITING = "SELECT id, job_name, payload::text, scope_kind, scope_id, plan_time, run_at, queue, priority, attempt FROM sched.execution" \
    " WHERE status = 'PENDING' AND (%s::text IS NULL OR job_name = %s) AND (%s::jsonb IS NULL OR payload @> %s) ORDER BY created_at, id"


def enqueued(db: Any, job: Optional[str] = None, payload__contains: Optional[Mapping[str, Any]] = None) -> list[Execution]:
    """What waits, the oldest first: of a job, and with this in its payload, where given. `db`: a connection of psycopg, or Django's."""
    wanted = Jsonb(dict(payload__contains), dumps) if payload__contains is not None else None
    with Cursor(driver_connection(db), row_factory=tuple_row) as cursor:
        rows: list[Any] = cursor.execute(_WAITING, (job, job, wanted, wanted)).fetchall()
    return [Execution(execution_id, job_name, json.loads(payload), *more) for execution_id, job_name, payload, *more in rows]


def advance(db: Any, by: Union[timedelta, str, float]) -> datetime:
    """Moves the clock of a database in test mode forward, and returns its time. by: a timedelta, a text ("3 days"), or seconds.

    Raises psycopg.Error (55000) outside test mode."""
    step = timedelta(seconds=by) if isinstance(by, (int, float)) else by
    with Cursor(driver_connection(db), row_factory=tuple_row) as cursor:
        [[now]] = cursor.execute("SELECT sched.advance(%s::interval)", (step,)).fetchall()
        assert isinstance(now, datetime)
        return now


def reset(db: Any, keep_definitions: bool = True) -> None:
    """Deletes the executions of a database in test mode, their history and alerts; with False the definitions too.

    Raises psycopg.Error (55000) outside test mode."""
    with Cursor(driver_connection(db), row_factory=tuple_row) as cursor:
        cursor.execute("SELECT sched.reset(%s)", (keep_definitions,))


def reset_committed(db: Any) -> None:
    """At the end of a test on Django's connection: `reset`, unless a transaction that is rolled back has all of it.

    Outside test mode it does nothing."""
    if not getattr(db, "in_atomic_block", True):
        with suppress(ObjectNotInPrerequisiteState):
            reset(db)
