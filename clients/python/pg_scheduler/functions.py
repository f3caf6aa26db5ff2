"""What an application calls on a connection of its own, in its own transaction: rolled back with it, seen by others once it has committed."""

from __future__ import annotations

from datetime import date, datetime
from decimal import Decimal
from typing import Any, Iterable, Mapping, Optional, Union
from uuid import UUID

from psycopg import AsyncConnection, AsyncCursor, Connection, Cursor
from psycopg.rows import scalar_row
from psycopg.types.json import Jsonb

from .json_text import dumps, json_object
from .statements import Statement

#: Of a scope: any scalar, which becomes text (7, a UUID).
Scalar = Union[str, int, float, bool, Decimal, UUID, date]


def enqueue(
    db: Connection[Any], job_name: str, payload: Optional[Mapping[str, Any]] = None, *, plan_time: Optional[datetime] = None,
    scope_kind: Optional[Scalar] = None, scope_id: Optional[Scalar] = None, run_at: Optional[datetime] = None, priority: Optional[int] = None,
    unique_by: Optional[str] = None, if_exists: Optional[str] = None,
) -> UUID:
    """Puts an execution into the job's queue; its id. `db`: a connection of psycopg, or Django's.

    The options are the arguments of `sched.enqueue`; one that is None has its default there. run_at: nobody claims it before. unique_by: "plan" or
    "scope"; if_exists: "keep", "replace" or "error". Raises TypeError where the payload is no JSON object, psycopg.Error as the server does."""
    said = _enqueue(job_name, payload, plan_time, scope_kind, scope_id, run_at, priority, unique_by, if_exists)
    return UUID(str(_scalars(db, said)[0]))


async def aenqueue(
    db: AsyncConnection[Any], job_name: str, payload: Optional[Mapping[str, Any]] = None, *, plan_time: Optional[datetime] = None,
    scope_kind: Optional[Scalar] = None, scope_id: Optional[Scalar] = None, run_at: Optional[datetime] = None, priority: Optional[int] = None,
    unique_by: Optional[str] = None, if_exists: Optional[str] = None,
) -> UUID:
    """`enqueue` on a connection of asyncio."""
    said = _enqueue(job_name, payload, plan_time, scope_kind, scope_id, run_at, priority, unique_by, if_exists)
    return UUID(str((await _ascalars(db, said))[0]))


def enqueue_many(
    db: Connection[Any], job_name: str, payloads: Iterable[Mapping[str, Any]], *, plan_times: Optional[Iterable[datetime]] = None,
    scope_kind: Optional[Scalar] = None, scope_ids: Optional[Iterable[Scalar]] = None, run_ats: Optional[Iterable[Optional[datetime]]] = None,
    priority: Optional[int] = None, unique_by: Optional[str] = None, if_exists: Optional[str] = None,
) -> list[UUID]:
    """Puts an execution for each payload into the job's queue, in one statement; their ids in that order.

    plan_times, scope_ids and run_ats pair with payloads by position. All else is as in `enqueue`."""
    said = _enqueue_many(job_name, payloads, plan_times, scope_kind, scope_ids, run_ats, priority, unique_by, if_exists)
    return [UUID(str(made)) for made in _scalars(db, said)]


async def aenqueue_many(
    db: AsyncConnection[Any], job_name: str, payloads: Iterable[Mapping[str, Any]], *, plan_times: Optional[Iterable[datetime]] = None,
    scope_kind: Optional[Scalar] = None, scope_ids: Optional[Iterable[Scalar]] = None, run_ats: Optional[Iterable[Optional[datetime]]] = None,
    priority: Optional[int] = None, unique_by: Optional[str] = None, if_exists: Optional[str] = None,
) -> list[UUID]:
    """`enqueue_many` on a connection of asyncio."""
    said = _enqueue_many(job_name, payloads, plan_times, scope_kind, scope_ids, run_ats, priority, unique_by, if_exists)
    return [UUID(str(made)) for made in await _ascalars(db, said)]


def cancel(db: Connection[Any], execution_id: UUID | str) -> bool:
    """Cancels an execution that waits, and asks one that runs to stop. False where it is unknown or has ended."""
    return bool(_scalars(db, _cancel(execution_id))[0])


async def acancel(db: AsyncConnection[Any], execution_id: UUID | str) -> bool:
    """`cancel` on a connection of asyncio."""
    return bool((await _ascalars(db, _cancel(execution_id)))[0])


def driver_connection(db: Any) -> Any:
    """The connection of psycopg in Django's, or the same."""
    if hasattr(db, "ensure_connection"):
        db.ensure_connection()
        return db.connection
    return db


def _scalars(db: Any, said: Statement) -> list[Any]:
    with Cursor(driver_connection(db), row_factory=scalar_row) as cursor:
        return cursor.execute(*said).fetchall()


async def _ascalars(db: AsyncConnection[Any], said: Statement) -> list[Any]:
    async with AsyncCursor(db, row_factory=scalar_row) as cursor:
        await cursor.execute(*said)
        return await cursor.fetchall()


def _enqueue(job_name: str, payload: Optional[Mapping[str, Any]], plan_time: Optional[datetime], scope_kind: Optional[Scalar], scope_id: Optional[Scalar],
             run_at: Optional[datetime], priority: Optional[int], unique_by: Optional[str], if_exists: Optional[str]) -> Statement:
    return _call("sched.enqueue", job_name=job_name, payload=Jsonb(json_object(payload), dumps), plan_time=plan_time, scope_kind=text(scope_kind),
                 scope_id=text(scope_id), run_at=run_at, priority=priority, unique_by=unique_by, if_exists=if_exists)


def _enqueue_many(job_name: str, payloads: Iterable[Mapping[str, Any]], plan_times: Optional[Iterable[datetime]], scope_kind: Optional[Scalar],
                  scope_ids: Optional[Iterable[Scalar]], run_ats: Optional[Iterable[Optional[datetime]]], priority: Optional[int],
                  unique_by: Optional[str], if_exists: Optional[str]) -> Statement:
    if isinstance(payloads, (str, bytes, Mapping)):
        raise TypeError("payloads are several JSON objects")
    return _call(
        "sched.enqueue_many", job_name=job_name, payloads=[Jsonb(json_object(payload), dumps) for payload in payloads],
        plan_times=None if plan_times is None else list(plan_times), scope_kind=text(scope_kind),
        scope_ids=None if scope_ids is None else [text(each) for each in scope_ids], run_ats=None if run_ats is None else list(run_ats),
        priority=priority, unique_by=unique_by, if_exists=if_exists)


def _cancel(execution_id: UUID | str) -> Statement:
    return Statement("SELECT sched.cancel(%s::uuid)", (str(execution_id),))


_TYPES = {"payload": "jsonb", "payloads": "jsonb[]", "plan_time": "timestamptz", "plan_times": "timestamptz[]", "run_at": "timestamptz",
          "run_ats": "timestamptz[]", "scope_ids": "text[]", "priority": "integer"}


def _call(function: str, **arguments: object) -> Statement:
    """With those that are not None, by their names."""
    given = {name: value for name, value in arguments.items() if value is not None}
    named = ", ".join(f"{name} => %s::{_TYPES.get(name, 'text')}" for name in given)
    return Statement(f"SELECT {function}({named})", tuple(given.values()))


def text(value: Optional[Scalar]) -> Optional[str]:
    if value is None or isinstance(value, str):
        return value
    if isinstance(value, bool):
        return str(value).lower()
    if isinstance(value, (int, float, Decimal, UUID, date)):
        return str(value)
    raise TypeError(f"a scope is a scalar, not {type(value).__name__}: {value!r:.100}")
