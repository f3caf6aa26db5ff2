"""What the worker of threads and the worker of asyncio have in common without a connection: statements, what a run is, its outcomes."""

from __future__ import annotations

import logging
import os
import random
import time
from contextlib import AbstractContextManager, nullcontext
from dataclasses import dataclass, field, fields, is_dataclass
from datetime import datetime, timedelta
from typing import Any, Callable, Generic, NamedTuple, Optional, Sequence, TypeVar
from uuid import UUID

import psycopg
from psycopg.conninfo import conninfo_to_dict, make_conninfo

Payload = TypeVar("Payload")
Db = TypeVar("Db", bound=psycopg.BaseConnection[Any])
Rows = Sequence[Sequence[Any]]
Said = tuple[str, Sequence[object]]
log = logging.getLogger("pg_scheduler")

# What a claim returns: the first fields of a run, in this order. The payload as text: what Python's json refuses of it fails its own run.
COLUMNS = "execution_id, lease_token, attempt, max_attempts, job_name, scope_kind, scope_id, date_part('epoch', plan_time), payload::text, run_timeout, " \
    "date_part('epoch', stale_after - clock_timestamp())"
CLAIM = f"SELECT {COLUMNS} FROM sched.claim(%s, max_claims => %s, runner_id => %s)"
# Ends what succeeded and claims what comes next, in one statement. A row also where nothing is left to claim.
FINISH_AND_CLAIM = "SELECT ended.lost, next.* FROM (SELECT array_agg(id) AS lost FROM sched.finish_success_many(%s, %s) AS id) AS ended" \
    f" LEFT JOIN ({CLAIM}) AS next ON true"
FINISH_MANY = "SELECT array_agg(id) FROM sched.finish_success_many(%s, %s) AS id"
FINISH = "SELECT sched.finish_success(%s, %s, result => %s)"
FAIL = "SELECT sched.finish_failure(%s, %s, error_code => %s, error_msg => %s, next_retry_at => clock_timestamp() + %s::interval, terminal => %s)"
SNOOZE = "SELECT sched.snooze(%s, %s, clock_timestamp())"
HEARTBEAT = "SELECT answer FROM sched.heartbeat_many(%s, %s)"


class Retry(Exception):
    """Raised by a handler: the attempt has failed, and the next one is `after` from now (None: as the job's backoff says)."""

    def __init__(self, after: Optional[timedelta] = None, message: str = "") -> None:
        super().__init__(message or "to be tried again")
        if not isinstance(after, (timedelta, type(None))):
            raise TypeError(f"after is no timedelta: {after!r}")
        self.after = after


class Discard(Exception):
    """Raised by a handler: the execution has failed for good, whatever attempts are left."""


class Cancelled(Exception):
    """Raised in a handler that was asked to stop, by `run.check()` and `run.sleep()`: somebody has cancelled the run, or the worker ends."""


class LeaseLost(Cancelled):
    """The same where another worker may have the execution by now. Nothing that the handler wrote is kept."""


class Hooks:
    """What to do besides the work: by default a line in the log. An exception in `around` fails the run, one in another hook ends the worker."""

    def around(self, run: RunBase[Any, Any]) -> AbstractContextManager[object]:
        """Entered before the handler is called, and left with its outcome; inside the run's transaction. The payload is still as in the ledger."""
        return nullcontext()

    def succeeded(self, run: RunBase[Any, Any]) -> None:
        """The run has committed."""
        log.info("%s: done", run)

    def failed(self, run: RunBase[Any, Any], error: BaseException) -> None:
        """The run was rolled back, and the ledger says so. A payload that json refuses is a text here."""
        log.warning("%s: failed: %s", run, error)

    def lost(self, run: RunBase[Any, Any]) -> None:
        """The run was rolled back; its lease was lost, so the ledger was told nothing."""
        log.warning("%s: its lease was lost", run)

    def broken(self, error: BaseException, pause: float) -> None:
        """A connection broke; the worker connects again after about so many seconds."""
        log.warning("connection: %s; again in about %.1f s", str(error).strip(), pause)


@dataclass(slots=True)
class RunBase(Generic[Payload, Db]):
    """One attempt at an execution, as its handler sees it."""

    execution_id: UUID
    lease_token: UUID
    attempt: int
    max_attempts: int
    job_name: str
    scope_kind: str
    scope_id: str
    plan_epoch: float
    payload: Payload
    run_timeout: Optional[timedelta]
    lease_seconds: float
    #: In the transaction that the run's success commits in.
    db: Db = field(init=False, repr=False)
    #: Why it is to stop; None while it may go on.
    stop_reason: Optional[str] = field(default=None, init=False)
    #: Ends what the handler waits for.
    interrupt: Optional[Callable[[], object]] = field(default=None, init=False, repr=False)
    #: When its lease was extended.
    beat_at: float = field(default_factory=time.monotonic, init=False, repr=False)

    @property
    def plan_time(self) -> datetime:
        """In this machine's time zone. Made for who asks: most handlers do not."""
        return datetime.fromtimestamp(self.plan_epoch).astimezone()

    def __str__(self) -> str:
        return f"{self.job_name} planned for {self.plan_time:%H:%M:%S} ({self.execution_id})"

    def check(self) -> None:
        """Raises Cancelled or LeaseLost where the run is to stop. Long work calls this now and then."""
        if self.stop_reason == "lost":
            raise LeaseLost("the lease is lost")
        if self.stop_reason is not None:
            raise Cancelled(self.stop_reason)

    def stop(self, reason: str) -> None:
        self.stop_reason = self.stop_reason or reason
        if self.interrupt is not None:
            self.interrupt()


def check(group: Sequence[RunBase[Any, Any]]) -> None:
    """Raises where one of them is to stop."""
    for run in group:
        run.check()


class Handler(NamedTuple):
    """What is called for the executions of a job."""

    function: Callable[..., Any]
    payload: Optional[Callable[[Any], Any]]
    is_batch: bool


def outcome(run: RunBase[Any, Any], error: BaseException, is_given_back: bool) -> Optional[Said]:
    """What the ledger is told of a run that was rolled back: a statement and its parameters; None where its lease is lost."""
    key = (run.execution_id, run.lease_token)
    if run.stop_reason == "shutdown" or (run.stop_reason is None and is_given_back):
        return SNOOZE, key
    if run.stop_reason is not None:
        return None if run.stop_reason == "lost" else (FAIL, (*key, "cancelled", run.stop_reason, None, False))
    code, after = ("retry", error.after) if isinstance(error, Retry) else (getattr(error, "sqlstate", None) or type(error).__name__, None)
    words = [text.replace("\0", "").encode(errors="replace").decode() for text in (code, str(error))]
    return FAIL, (*key, *words, after, isinstance(error, Discard))


def reader(payload: Optional[Callable[[Any], Any]]) -> Optional[Callable[[Any], Any]]:
    """How a payload's JSON becomes what the handler gets: a dataclass is made from the keys that it knows, anything else is called with it."""
    if is_dataclass(payload):
        return lambda value: payload(**{part.name: value[part.name] for part in fields(payload) if part.name in value})
    return payload


def primary(conninfo: str) -> str:
    """A connection string that finds the primary among several hosts, notices that its host is gone, and takes any text; unless it says otherwise."""
    defaults = {"target_session_attrs": "read-write", "fallback_application_name": "pg_scheduler", "keepalives_idle": "10", "keepalives_interval": "5",
                "keepalives_count": "3", "tcp_user_timeout": "20000", "connect_timeout": os.environ.get("PGCONNECT_TIMEOUT") or "10", "client_encoding": "utf8"}
    return make_conninfo(conninfo, **{name: value for name, value in defaults.items() if name not in conninfo_to_dict(conninfo)})


def jittered(seconds: float) -> float:
    """About so long: workers that were started together are not to ask together."""
    return seconds * random.uniform(0.5, 1.5)
