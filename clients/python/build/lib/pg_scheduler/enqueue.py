"""Enqueues on the caller's connection, in the caller's transaction: rolled back with it, claimable once it has committed."""

from __future__ import annotations

from typing import Any, Mapping
from uuid import UUID

from psycopg import AsyncConnection, Connection
from psycopg.rows import scalar_row
from psycopg.types.json import Jsonb

OPTIONS = ("plan_time", "scope_kind", "scope_id", "run_at", "priority", "unique_by", "if_exists")


def enqueue(db: Connection[Any], job_name: str, payload: Mapping[str, Any] = {}, **options: Any) -> UUID:
    """Puts an execution into the job's queue; its id. Options are the arguments of `sched.enqueue`, by name."""
    with db.cursor(row_factory=scalar_row) as cursor:
        return UUID(str(cursor.execute(*statement(job_name, payload, options)).fetchone()))


async def aenqueue(db: AsyncConnection[Any], job_name: str, payload: Mapping[str, Any] = {}, **options: Any) -> UUID:
    """The same on a connection of asyncio."""
    async with db.cursor(row_factory=scalar_row) as cursor:
        return UUID(str(await (await cursor.execute(*statement(job_name, payload, options))).fetchone()))


def statement(job_name: str, payload: Mapping[str, Any], options: Mapping[str, Any]) -> tuple[str, dict[str, object]]:
    unknown = sorted(set(options) - set(OPTIONS))
    if unknown:
        raise TypeError(f"unknown option {unknown[0]!r}; there are: {', '.join(OPTIONS)}")
    named = "".join(f", {name} => %({name})s" for name in options)
    return f"SELECT sched.enqueue(%(job_name)s, %(payload)s{named})", {"job_name": job_name, "payload": Jsonb(dict(payload)), **options}
