"""Enqueues on the caller's connection, in the caller's transaction: rolled back with it, claimable once it has committed."""

from __future__ import annotations

from typing import Any, Mapping, Optional
from uuid import UUID

import psycopg

from .core import enqueue_statement


def enqueue(db: psycopg.Connection[Any], job_name: str, payload: Optional[Mapping[str, Any]] = None, **options: Any) -> UUID:
    """Puts an execution into the job's queue; its id. Options are the arguments of `sched.enqueue`, by name."""
    with db.cursor(row_factory=psycopg.rows.tuple_row) as cursor:
        row = cursor.execute(*enqueue_statement(job_name, payload or {}, options)).fetchone()
    assert row is not None
    return UUID(str(row[0]))


async def aenqueue(
    db: psycopg.AsyncConnection[Any], job_name: str, payload: Optional[Mapping[str, Any]] = None, **options: Any
) -> UUID:
    """The same on a connection of asyncio."""
    async with db.cursor(row_factory=psycopg.rows.tuple_row) as cursor:
        row = await (await cursor.execute(*enqueue_statement(job_name, payload or {}, options))).fetchone()
    assert row is not None
    return UUID(str(row[0]))
