"""What the worker of threads and the worker of asyncio have in common: statements, outcomes, what a run is. No connection is used here."""

from __future__ import annotations

import logging
import os
import random
import socket
import time
from contextlib import AbstractContextManager, nullcontext
from dataclasses import dataclass, field, fields, is_dataclass
from datetime import datetime, timedelta, timezone
from typing import Any, Callable, Generator, Generic, Iterable, Mapping, Optional, Sequence, TypeVar
from uuid import UUID

import psycopg
from psycopg.conninfo import conninfo_to_dict, make_conninfo
from psycopg.types.json import Jsonb

Payload = TypeVar("Payload")
AnyRun = TypeVar("AnyRun", bound="RunBase[Any]")
Result = TypeVar("Result")
Rows = Sequence[Sequence[Any]]
# Statements that a worker executes on its connection, one after the other; it sends in what each returns, or throws in what it raises.
Steps = Generator[tuple[str, Sequence[object]], Rows, Result]
log = logging.getLogger("pg_scheduler")

# What a claim returns, in this order.
COLUMNS = "execution_id, lease_token, attempt, max_attempts, job_name, scope_kind, scope_id, plan_time, payload, run_timeout, " \
    "extract(epoch from stale_after - clock_timestamp())::float8"
CLAIM = f"SELECT {COLUMNS} FROM sched.claim(%s, max_claims => %s, runner_id => %s)"
# Ends what succeeded and claims what comes next, in one statement. A row also where nothing is left to claim.
FINISH_AND_CLAIM = (
    "SELECT ended.lost, next.* FROM (SELECT array_agg(id) AS lost FROM sched.finish_success_many(%s, %s) AS id) AS ended"
    f" LEFT JOIN (SELECT {COLUMNS} FROM sched.claim(%s, max_claims => %s, runner_id => %s)) AS next ON true"
)
FINISH_MANY = "SELECT array_agg(id) FROM sched.finish_success_many(%s, %s) AS id"
FINISH = "SELECT sched.finish_success(%s, %s, result => %s)"
FAIL = "SELECT sched.finish_failure(%s, %s, error_code => %s, error_msg => %s, next_retry_at => %s, terminal => %s)"
SNOOZE = "SELECT sched.snooze(%s, %s, clock_timestamp())"
HEARTBEAT = "SELECT answer FROM sched.heartbeat_many(%s, %s)"


DEFAULTS = {"target_session_attrs": "read-write", "fallback_application_name": "pg_scheduler"}


class Retry(Exception):
    """Raised by a handler: the attempt has failed, and the next one is `after` from now (None: as the job's backoff says)."""

    def __init__(self, after: Optional[timedelta] = None, message: str = "") -> None:
        super().__init__(message or "to be tried again")
        self.after = after


class Discard(Exception):
    """Raised by a handler: the execution has failed for good, whatever attempts are left."""


class Cancelled(Exception):
    """Raised in a handler that was asked to stop, by `run.check()` and `run.sleep()`: somebody has cancelled the run, or the worker ends."""


class LeaseLost(Cancelled):
    """The same where another worker may have the execution by now. Nothing that the handler wrote is kept."""


class Hooks:
    """What to do besides the work. Override what you need; an exception in a hook ends the worker."""

    def around(self, run: "RunBase[Any]") -> AbstractContextManager[object]:
        """Entered before the handler is called and left with its outcome; inside the run's transaction."""
        return nullcontext()

    def succeeded(self, run: "RunBase[Any]") -> None:
        """The run has committed."""

    def failed(self, run: "RunBase[Any]", error: BaseException) -> None:
        """The run was rolled back, and the ledger says so."""

    def lost(self, run: "RunBase[Any]") -> None:
        """The run was rolled back; its lease was lost, so the ledger was told nothing."""

    def broken(self, error: BaseException, pause: float) -> None:
        """A connection broke; the worker connects again after so many seconds."""


@dataclass
class RunBase(Generic[Payload]):
    """One attempt at an execution, as its handler sees it."""

    execution_id: UUID
    lease_token: UUID
    attempt: int
    max_attempts: int
    job_name: str
    scope_kind: str
    scope_id: str
    plan_time: datetime
    payload: Payload
    run_timeout: Optional[timedelta]
    lease_seconds: float
    #: Why it is to stop; None while it may go on.
    stop_reason: Optional[str] = field(default=None, init=False)
    beat_at: float = field(default=0.0, init=False, repr=False)

    def __post_init__(self) -> None:
        self.beat_at = time.monotonic() + self.lease_seconds / 3

    @property
    def key(self) -> tuple[UUID, UUID]:
        return self.execution_id, self.lease_token

    def check(self) -> None:
        """Raises Cancelled or LeaseLost where the run is to stop. Long work calls this now and then."""
        if self.stop_reason == "lost":
            raise LeaseLost("the lease is lost")
        if self.stop_reason is not None:
            raise Cancelled(self.stop_reason)


@dataclass
class Handler:
    """What is called for the executions of a job."""

    function: Callable[..., Any]
    payload: Callable[[Any], Any]
    is_batch: bool


class Base(Generic[AnyRun]):
    """Options, handlers and runs of a worker; `run_type` makes a run of a claim's row."""

    run_type: type[AnyRun]

    def __init__(
        self, conninfo: str = "", queue: str = "default", *, slots: int = 1, batch: int = 1, poll: float = 5.0, grace: float = 30.0,
        hooks: Optional[Hooks] = None,
    ) -> None:
        """conninfo: a connection string; with several hosts the worker finds the primary. queue: which. slots: how many runs at a time, each
        with a connection. batch: how many executions a slot claims at once. poll: how often to look for work that no notification told of, in
        seconds. grace: how long runs may go on after `stop`, in seconds; then they are stopped and given back, without an attempt lost."""
        if slots < 1 or batch < 1:
            raise ValueError("slots and batch are at least 1")
        self.conninfo, self.queue, self.slots, self.batch, self.poll, self.grace = primary(conninfo), queue, slots, batch, poll, grace
        self.hooks = hooks or Hooks()
        self.handlers: dict[str, Handler] = {}
        #: By their lease tokens: an execution may come again before its last run has ended here.
        self.held: dict[UUID, AnyRun] = {}
        self.claim = (CLAIM, (queue, batch, f"{socket.gethostname()}/{os.getpid()}"))

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
        self.handlers[job_name] = Handler(function, reader(payload), batch)
        return function

    def handler(self, job_name: str) -> Handler:
        found = self.handlers.get(job_name) or self.handlers.get("*")
        if found is None:
            known = ", ".join(sorted(self.handlers)) or "none"
            raise LookupError(f'no handler for job "{job_name}" (this worker has: {known})')
        return found

    def take(self, rows: Iterable[Sequence[Any]]) -> list[AnyRun]:
        """Holds what was claimed."""
        runs = [self.run_type(*row) for row in rows]
        self.held.update((run.lease_token, run) for run in runs)
        return runs

    def groups(self, runs: Iterable[AnyRun]) -> list[list[AnyRun]]:
        """What is done in one transaction: a run, or the runs that a batch handler gets."""
        groups: dict[object, list[AnyRun]] = {}
        for run in runs:
            handler = self.handlers.get(run.job_name) or self.handlers.get("*")
            groups.setdefault(run.job_name if handler and handler.is_batch else run.execution_id, []).append(run)
        return list(groups.values())

    def due(self) -> list[AnyRun]:
        """Whose leases are to be extended now: all, three times in the shortest."""
        held, now = list(self.held.values()), time.monotonic()
        if all(run.beat_at > now for run in held):
            return []
        for run in held:
            run.beat_at = now + run.lease_seconds / 3
        return held

    def pause(self) -> float:
        """How long to wait until then."""
        return min([run.lease_seconds / 3 for run in list(self.held.values())] + [1.0])

    def finish(self, group: Sequence[AnyRun], returned: object, claims: bool) -> "Steps[Rows]":
        """Ends the runs and claims the next, for the commit of what they wrote; LeaseLost where a lease was not theirs any more."""
        for run in group:
            run.check()
        lost: Sequence[UUID] = ()
        rows: Rows = []
        if isinstance(returned, dict) and len(group) == 1:
            try:
                yield FINISH, (*group[0].key, Jsonb(returned))
            except psycopg.errors.ObjectNotInPrerequisiteState:
                lost = [group[0].execution_id]
            if claims and not lost:
                rows = yield self.claim
        else:
            found = yield (FINISH_AND_CLAIM, (*keys(group), *self.claim[1])) if claims else (FINISH_MANY, keys(group))
            lost, rows = found[0][0] or (), [row[1:] for row in found if len(row) > 1 and row[1] is not None]
        for run in group:
            if run.execution_id in lost:
                run.stop_reason = "lost"
        if lost:
            raise LeaseLost("the lease is lost")
        return rows

    def report(self, group: Sequence[AnyRun], error: BaseException) -> "Steps[None]":
        """Tells the ledger what became of runs whose transaction was rolled back."""
        for run in group:
            said = outcome(run, error)
            try:
                if said is not None:
                    try:
                        yield said
                    except psycopg.errors.QueryCanceled:  # a cancel that came late
                        yield said
            except psycopg.errors.ObjectNotInPrerequisiteState:
                said = None
            if said is None:
                self.hooks.lost(run)
            else:
                self.hooks.failed(run, error)

    def broke(self, error: BaseException, pause: float) -> float:
        """What to wait before the next connection."""
        self.hooks.broken(error, pause)
        log.warning("connection: %s; again in about %.1f s", str(error).strip(), pause)
        return jittered(pause)


def keys(runs: Sequence["RunBase[Any]"]) -> tuple[list[UUID], list[UUID]]:
    return [run.execution_id for run in runs], [run.lease_token for run in runs]


def asked(said: tuple[str, Sequence[object]]) -> Steps[Rows]:
    """One statement."""
    return (yield said)


def outcome(run: "RunBase[Any]", error: BaseException) -> Optional[tuple[str, Sequence[object]]]:
    """What the ledger is told of a run that was rolled back: a statement and its parameters; None where its lease is lost."""
    if run.stop_reason == "lost":
        return None
    if run.stop_reason == "shutdown" or (run.stop_reason is None and isinstance(error, Cancelled)):
        return SNOOZE, run.key  # it has nothing to do with why: another run of its batch was to stop
    if run.stop_reason is not None:
        return FAIL, (*run.key, "cancelled", run.stop_reason, None, False)
    if isinstance(error, Retry):
        at = None if error.after is None else datetime.now(timezone.utc) + error.after
        return FAIL, (*run.key, "retry", str(error), at, False)
    code = getattr(error, "sqlstate", None) or type(error).__name__
    return FAIL, (*run.key, code, str(error), None, isinstance(error, Discard))


def reader(payload: Optional[Callable[[Any], Any]]) -> Callable[[Any], Any]:
    """How a payload's JSON becomes what the handler gets: a dataclass is made from the keys that it knows, anything else is called with it."""
    if payload is None:
        return lambda value: value
    if is_dataclass(payload):
        known = {part.name for part in fields(payload)}
        return lambda value: payload(**{name: part for name, part in value.items() if name in known})
    return payload


def primary(conninfo: str) -> str:
    """A connection string that finds the primary among several hosts, unless it says something else."""
    return make_conninfo(conninfo, **{name: value for name, value in DEFAULTS.items() if name not in conninfo_to_dict(conninfo)})


def jittered(seconds: float) -> float:
    """About so long: workers that were started together are not to ask together."""
    return seconds * random.uniform(0.5, 1.5)


def enqueue_statement(job_name: str, payload: Mapping[str, Any], options: Mapping[str, Any]) -> tuple[str, dict[str, object]]:
    """`sched.enqueue` with these options, by its own names of them (plan_time, scope_kind, scope_id, run_at, priority, unique_by, if_exists)."""
    known = ("plan_time", "scope_kind", "scope_id", "run_at", "priority", "unique_by", "if_exists")
    unknown = sorted(set(options) - set(known))
    if unknown:
        raise TypeError(f"unknown option {unknown[0]!r}; there are: {', '.join(known)}")
    named = "".join(f", {name} => %({name})s" for name in known if name in options)
    text = f"SELECT sched.enqueue(%(job_name)s, %(payload)s{named})"
    return text, {"job_name": job_name, "payload": Jsonb(dict(payload)), **options}
