"""Connections, and transactions that are done again where PostgreSQL asks for it."""

import os
from typing import Any, Awaitable, Callable, TypeVar

import psycopg
from psycopg import AsyncConnection
from psycopg.conninfo import make_conninfo

Result = TypeVar("Result")

#: The pooler, and the server itself for LISTEN. Empty: the usual PG* variables.
POOLED = os.environ.get("SHOP_DATABASE", "")
DIRECT = os.environ.get("SHOP_DIRECT", POOLED)

CONFLICTS = (psycopg.errors.SerializationFailure, psycopg.errors.DeadlockDetected)


def named(conninfo: str, name: str) -> str:
    """The connection string with a name that pg_stat_activity and PgBouncer's SHOW CLIENTS show."""
    return make_conninfo(conninfo, application_name=f"{name} {os.getpid()}")


async def in_transaction(work: Callable[[AsyncConnection[Any]], Awaitable[Result]]) -> Result:
    """Calls `work` in a transaction and commits. A conflict with another transaction has both done again: SERIALIZABLE has such conflicts."""
    while True:
        try:
            # PgBouncer in transaction mode: a prepared statement would stay with a server process that the next transaction does not get
            async with await AsyncConnection.connect(named(POOLED, "shop web"), prepare_threshold=None) as db:
                return await work(db)
        except CONFLICTS:
            continue
