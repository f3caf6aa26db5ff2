"""The worker that calls plain functions, in threads. Each slot has one."""

from __future__ import annotations

import asyncio
import inspect
import threading
from contextlib import AbstractAsyncContextManager, AbstractContextManager, asynccontextmanager, suppress
from types import TracebackType
from typing import Any, AsyncIterator, Callable, Coroutine, Iterable, Mapping, Optional, Sequence, TypeVar

import psycopg
from psycopg import Connection, Cursor, generators
from psycopg.pq import ExecStatus
from psycopg.rows import tuple_row

from .engine import Engine
from .errors import Moment, TransactionEnded
from .functions import driver_connection
from .hooks import Hooks
from .json_text import Json
from .runs import Call, Payload, RunBase
from .schedules import DeclaredSchedule
from .sessions import primary
from .statements import Rows, Statement
from .transport import Event, Source, Transport

Result = TypeVar("Result")


class Run(RunBase[Payload, "Connection[Any]"]):
    """One attempt at an execution."""

    __slots__ = ("over",)
    over: threading.Event

    def sleep(self, seconds: float) -> None:
        """Waits for so long, and raises Cancelled or LeaseLost as soon as the run is to stop."""
        self.over.wait(seconds)
        self.check()

    def snooze(self, until: Moment) -> None:
        """Gives the execution back until then (seconds from now, a timedelta, a datetime with a time zone) when the handler has returned.

        What the handler writes is committed with it, and the attempt does not count. Of a batch it holds for all runs."""
        self.call.snooze(until)

    def progress(self, progress: Mapping[str, Any]) -> None:
        """Shows in `sched.running` at once, whatever the run's transaction does. A JSON object.

        Raises Cancelled or LeaseLost where the run is to stop."""
        completed(self.call.keeper.progress(self, progress))

    def finishing(self, result: object = None) -> AbstractContextManager[Connection[Any]]:
        """`with run.finishing() as db:` with `transaction="finish"`: what is written in the block commits with the run's success, when the block ends.

        result: a dict or list for the ledger, which the block may still fill. An exception rolls back; Snooze commits. Of a batch it ends all runs.
        Raises RuntimeError with `transaction="run"`, and for a second block."""
        return _Blocking(self.call.keeper.finishing(self.call, result))


class Worker(Engine[Run[Any], "Connection[Any]"]):
    """Claims the executions of queues and calls the handlers of their jobs, in threads."""

    run_type = Run

    def __init__(
        self, dsn: Source = "", queue: str = "default", *, queues: Optional[Mapping[str, int]] = None, slots: int = 1, batch: int = 1, poll: float = 5.0,
        grace: float = 5.0, max_runs: Optional[int] = None, hooks: Optional[Hooks] = None, transaction: str = "run", prepare: bool = True,
        listen_dsn: Optional[Source] = None, json: Json = "number", handle_signals: bool = True, schedules: Optional[Iterable[Mapping[str, Any]]] = None,
        schedule_group: Optional[str] = None,
    ) -> None:
        """dsn: a connection string; with several hosts the worker finds the primary. Or a function that makes a connection of its own at each call.
        queue: where it claims, with so many runs at a time: slots. queues: several of them with their slots, `{"mail": 8, "render": 2}`.
        batch: how many executions a slot claims at once. poll: how often to look for work that no notification told of, in seconds.
        grace: how long runs may go on after `stop`, in seconds; then they are stopped and given back, without an attempt lost.
        max_runs: after so many that have ended it stops by itself. hooks: what hears of runs.
        transaction: "run": `run.db` is open while a handler runs. "finish": a handler has no connection; see `run.finishing()`.
        prepare: False prepares no statements; behind a pooler none are prepared anyway. listen_dsn: where to LISTEN, instead of dsn.
        json: numbers of payloads: "number" (int and float; one that loses digits fails its run), "decimal", or a function that gets the text.
        handle_signals: whether SIGTERM and SIGINT stop it, where it runs in the main thread.
        schedules: what `run` declares before it claims, each as in `declare_schedules`, with those beside handlers. schedule_group: the group that
        has exactly these schedules then; another program needs another group.

        Raises ValueError for a number or word that there is not."""
        self._threads = ThreadTransport()
        super().__init__(
            self._threads, dsn, queue, queues, slots, batch, poll, grace, max_runs, hooks, transaction, prepare, listen_dsn, json, handle_signals,
            schedules, schedule_group,
        )

    def run(self) -> None:
        """Works until `stop`, SIGTERM or SIGINT, or the end of the interpreter."""
        asyncio.run(self.work())

    def declare_schedules(self, db: Connection[Any], dry_run: bool = False) -> list[DeclaredSchedule]:
        """Declares on this connection, in your transaction, what `run` does at its start; what became of each schedule. For deployments and tests.

        db: of psycopg, or Django's. dry_run: nothing is written. Raises ValueError without schedule_group, psycopg.Error as the server does."""
        return list(completed(self._declare_within(driver_connection(db), dry_run)))

    def drain(self) -> int:
        """Works until nothing is left to claim; how many runs have ended. For tests: what failed waits for its next attempt."""
        return asyncio.run(self.work(drains=True))


class _HandlersConnection(Connection[Any]):
    def commit(self) -> None:
        raise TransactionEnded("COMMIT is the worker's to say")

    def rollback(self) -> None:
        raise TransactionEnded("ROLLBACK is the worker's to say; a savepoint is `with run.db.transaction():`")


class ThreadTransport(Transport["Connection[Any]"]):
    can_cancel = False

    async def connect(self, source: Source) -> Connection[Any]:
        db: Connection[Any] = _HandlersConnection.connect(primary(source)) if isinstance(source, str) else source()
        try:
            if not isinstance(db, Connection):
                raise TypeError(f"the function that makes connections returned no psycopg.Connection: {db!r}")
            db.autocommit = True
            return db
        except BaseException:
            if isinstance(db, Connection):
                db.close()
            raise

    async def close(self, db: Connection[Any]) -> None:
        db.close()

    @asynccontextmanager
    async def savepoint(self, db: Connection[Any]) -> AsyncIterator[None]:
        with db.transaction():
            yield

    async def ask(self, db: Connection[Any], statement: Statement) -> Rows:
        with Cursor(db, row_factory=tuple_row) as cursor:
            return cursor.execute(*statement, binary=True).fetchall()

    async def script(self, db: Connection[Any], text: str) -> None:
        with Cursor(db, row_factory=tuple_row) as cursor:
            cursor.execute(text.encode(), prepare=False)

    async def command(self, db: Connection[Any], text: str) -> None:
        # As the driver's own transactions do it: a cursor takes longer for a text without parameters and rows.
        with db.lock:
            db.pgconn.send_query(text.encode())
            results = db.wait(generators.execute(db.pgconn))
        for result in results:
            if result.status == ExecStatus.FATAL_ERROR:
                raise psycopg.errors.error_from_result(result, db.info.encoding)

    async def notifications(self, db: Connection[Any], seconds: float) -> Sequence[psycopg.Notify]:
        return list(db.notifies(timeout=seconds, stop_after=1))

    async def call(self, call: Call[Any, Connection[Any]], argument: object) -> object:
        over = threading.Event()

        def cancel() -> None:
            with call.lock:
                db = call.lent
                if db is not None:  # the handler still has it
                    db.cancel_safe(timeout=5.0)

        def interrupt() -> None:
            over.set()
            threading.Thread(target=cancel, name="pg_scheduler interrupt", daemon=True).start()

        for run in call.runs:
            run.over = over
        call.interrupt = interrupt
        try:
            call.check()
            returned = call.handler.function(argument)
            if inspect.isawaitable(returned) or inspect.isgenerator(returned) or inspect.isasyncgen(returned):
                raise TypeError(f"the handler has not run: it returned {returned!r}")
            return returned
        finally:
            call.interrupt = None

    def event(self) -> Event:
        return threading.Event()

    async def wait(self, event: Event, seconds: float) -> None:
        assert isinstance(event, threading.Event)
        event.wait(seconds)

    async def sleep(self, seconds: float) -> None:
        threading.Event().wait(seconds)

    def semaphore(self, value: int) -> AbstractAsyncContextManager[object]:
        return _Semaphore(value)

    def start(self, part: Coroutine[Any, Any, None]) -> asyncio.Future[None]:
        """In a thread of its own, which does not keep the interpreter from ending."""
        loop = asyncio.get_running_loop()
        future: asyncio.Future[None] = loop.create_future()

        def tell(how: Callable[..., None], *what: object) -> None:
            with suppress(RuntimeError):  # the loop has ended
                loop.call_soon_threadsafe(lambda: None if future.done() else how(*what))

        def work() -> None:
            try:
                completed(part)
                tell(future.set_result, None)
            except BaseException as error:
                tell(future.set_exception, error)

        threading.Thread(target=work, name="pg_scheduler", daemon=True).start()
        return future


def completed(coroutine: Coroutine[Any, Any, Result]) -> Result:
    """What a coroutine returns that blocks this thread where it waits."""
    try:
        coroutine.send(None)
    except StopIteration as ended:
        result: Result = ended.value
        return result
    coroutine.close()
    raise RuntimeError("a thread cannot wait for an event loop: the worker of threads calls plain functions")


class _Semaphore(AbstractAsyncContextManager[None]):
    def __init__(self, value: int) -> None:
        self._semaphore = threading.Semaphore(value)

    async def __aenter__(self) -> None:
        self._semaphore.acquire()

    async def __aexit__(self, *_: object) -> None:
        self._semaphore.release()


class _Blocking(AbstractContextManager["Connection[Any]"]):
    """A context manager of coroutines that block."""

    def __init__(self, manager: AbstractAsyncContextManager[Connection[Any]]) -> None:
        self._manager = manager

    def __enter__(self) -> Connection[Any]:
        return completed(self._manager.__aenter__())

    def __exit__(self, kind: Optional[type[BaseException]], error: Optional[BaseException], trace: Optional[TracebackType]) -> Optional[bool]:
        return completed(self._manager.__aexit__(kind, error, trace))
