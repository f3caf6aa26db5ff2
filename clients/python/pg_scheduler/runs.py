"""What a handler gets: a run, one attempt at an execution. And what the runs of one call of a handler have in common."""

from __future__ import annotations

import threading
import time
from contextlib import AbstractAsyncContextManager
from dataclasses import dataclass, field
from datetime import datetime, timedelta
from typing import Any, Callable, Generic, Mapping, NamedTuple, Optional, Protocol, Sequence, TypeVar
from uuid import UUID

import psycopg

from .errors import Cancelled, LeaseLost, Moment, moment

Payload = TypeVar("Payload")
Db = TypeVar("Db", bound=psycopg.BaseConnection[Any])
AnyRun = TypeVar("AnyRun", bound="RunBase[Any, Any]")


class Handler(NamedTuple):
    """What is called for the executions of a job."""

    function: Callable[..., Any]
    payload: Optional[Callable[[Any], Any]]
    is_batch: bool


@dataclass(slots=True, eq=False)
class RunBase(Generic[Payload, Db]):
    """One attempt at an execution, as its handler sees it."""

    execution_id: UUID
    lease_token: UUID
    #: Which attempt this is: 1 is the first.
    attempt: int
    max_attempts: int
    job_name: str
    scope_kind: str
    scope_id: str
    #: plan_time in seconds since 1970.
    plan_epoch: float
    #: What `payload=` of the handler has made of the JSON; without one, what `json=` of the worker has.
    payload: Payload
    #: How long the job lets a run last, None: as long as it likes. Heartbeats see to it.
    run_timeout: Optional[timedelta]
    #: How long a lease lasts without a heartbeat.
    lease_seconds: float
    #: Why it is to stop (`cancel`, `lost`, `shutdown`); None while it may go on.
    stop_reason: Optional[str] = field(default=None, init=False)
    #: When its lease was extended, by this machine's monotonic clock.
    beat_at: float = field(default_factory=time.monotonic, init=False, repr=False)
    #: Whether the ledger is asked about it at once.
    is_doubtful: bool = field(default=False, init=False, repr=False)
    payload_text: str = field(init=False, repr=False)
    #: The call of the handler that this run is in.
    call: Call[Any, Db] = field(init=False, repr=False)

    def __post_init__(self) -> None:
        self.payload_text = str(self.payload)

    @property
    def plan_time(self) -> datetime:
        """In this machine's time zone. Made for who asks: most handlers do not."""
        return datetime.fromtimestamp(self.plan_epoch).astimezone()

    @property
    def db(self) -> Db:
        """The connection, in the transaction that the run's success commits in.

        With `transaction="finish"` there is one inside `run.finishing()` and in the hook `on_dead` only: elsewhere this raises RuntimeError."""
        return self.call.connection()

    def __str__(self) -> str:
        return f"{self.job_name} planned for {self.plan_time:%H:%M:%S} ({self.execution_id})"

    def check(self) -> None:
        """Raises Cancelled or LeaseLost where the run is to stop. Long work calls this now and then."""
        if self.stop_reason == "lost":
            raise LeaseLost("the lease is lost")
        if self.stop_reason is not None:
            raise Cancelled(self.stop_reason)

    def stop(self, reason: str) -> None:
        """Ends what the handler waits for, as far as that can be ended."""
        self.stop_reason = self.stop_reason or reason
        if self.call.interrupt is not None:
            self.call.interrupt()

    @property
    def lease_ended(self) -> bool:
        """Whether its lease is known to be lost, or must have run out by now."""
        return self.stop_reason == "lost" or time.monotonic() > self.beat_at + self.lease_seconds


class Place:
    """Where a slot claims, and by which name: what one slot does comes one after the other."""

    def __init__(self, queue: str, runner_id: str) -> None:
        self.queue, self.runner_id, self.began_at = queue, runner_id, time.monotonic()
        #: Whether a claim may have been committed whose answer has not come.
        self.is_unanswered = False


class Keeper(Protocol[Db]):
    """The worker, as its runs need it."""

    def finishing(self, call: Call[Any, Db], result: object) -> AbstractAsyncContextManager[Db]: ...

    async def progress(self, run: RunBase[Any, Db], progress: Mapping[str, Any]) -> None: ...


class Call(Generic[AnyRun, Db]):
    """One call of a handler: its run, or the runs of a batch; and how far it has come."""

    def __init__(self, keeper: Keeper[Db], runs: list[AnyRun], handler: Handler) -> None:
        self.keeper, self.runs, self.handler = keeper, runs, handler
        for run in runs:
            run.call = self
        #: Ends what the handler waits for.
        self.interrupt: Optional[Callable[[], object]] = None
        #: Held by who cancels a statement of the handler's, so that no later one is hit.
        self.lock = threading.Lock()
        self._db: Optional[Db] = None
        self.begin()

    def begin(self) -> None:
        """For a first time, or again after a conflict."""
        #: Whether the handler has had the connection, and may have left something in its session.
        self.used_db = False
        #: Whether the handler was called with a connection open.
        self.was_lent = False
        #: What broke the connection of `finishing`, where that is no fault of the handler's.
        self.cut_off: Optional[Exception] = None
        #: Whether the ledger was told of a connection that broke.
        self.is_told = False
        #: Whether a commit was repeated whose answer got lost.
        self.is_repeated = False
        #: Whether the handler has done its part: an error that comes later is none of its own.
        self.is_handled = False
        #: Whether `finishing` has committed.
        self.is_finished = False
        #: Whether the runs have ended as the handler has it.
        self.is_committed = False
        #: What `finishing` could not commit.
        self.conflict: Optional[Exception] = None
        self.snoozed: Optional[datetime | timedelta] = None
        #: Statuses of those that the handler has ended by a statement of its own.
        self.ended: dict[UUID, str] = {}

    def snooze(self, until: Moment) -> None:
        self.snoozed = moment(until)

    def connection(self) -> Db:
        if self._db is None:
            raise RuntimeError('with transaction="finish", run.db is open inside run.finishing() and in the hook on_dead only')
        self.used_db = True
        return self._db

    def lend(self, db: Optional[Db]) -> None:
        """The handler may use it; with None it may not any more."""
        with self.lock:
            self._db = db
            self.was_lent |= db is not None

    @property
    def lent(self) -> Optional[Db]:
        return self._db

    def check(self) -> None:
        """Raises where one of the runs is to stop."""
        for run in self.runs:
            run.check()

    @property
    def keys(self) -> tuple[list[UUID], list[UUID]]:
        return keys(self.runs)

    @property
    def lease_ended(self) -> bool:
        return any(run.lease_ended for run in self.runs)


def keys(runs: Sequence[RunBase[Any, Any]]) -> tuple[list[UUID], list[UUID]]:
    """Ids and tokens, as statements for many take them."""
    return [run.execution_id for run in runs], [run.lease_token for run in runs]
