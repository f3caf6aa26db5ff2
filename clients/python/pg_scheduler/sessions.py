"""Connections to a server: how a transaction begins, what is left of a handler in a session, and whether a pooler shares it with others."""

from __future__ import annotations

import os
import re
import time
from collections import deque
from contextlib import asynccontextmanager, suppress
from dataclasses import dataclass
from typing import Any, AsyncIterator, Callable, Generic, Optional

import psycopg
from psycopg import sql
from psycopg.conninfo import conninfo_to_dict, make_conninfo
from psycopg.pq import TransactionStatus

from .runs import Db
from .statements import CONFLICTS, MARK, PREPARED_ELSEWHERE, Rows, Statement
from .transport import Source, Transport, jittered

#: Limits of a role, a database or a server that would cut off a handler, and which the job's run_timeout replaces.
_LIFTED = ("idle_in_transaction_session_timeout", "statement_timeout")


def primary(conninfo: str) -> str:
    """A connection string that finds the primary among several hosts, notices that its host is gone, and takes any text; unless it says otherwise."""
    defaults = {"target_session_attrs": "primary", "fallback_application_name": "pg_scheduler", "keepalives_idle": "10", "keepalives_interval": "5",
                "keepalives_count": "3", "tcp_user_timeout": "20000", "connect_timeout": os.environ.get("PGCONNECT_TIMEOUT") or "10", "client_encoding": "utf8"}
    given = conninfo_to_dict(conninfo)
    return make_conninfo(conninfo, **{name: value for name, value in defaults.items() if name not in given})


def _named_in(options: str) -> set[str]:
    """The settings that a conninfo's `options` give."""
    return {name.replace("-", "_").lower() for name in re.findall(r"(?:-c\s*|--)([\w.-]+)=", options)}


#: DISCARD ALL, by its parts: as a whole it goes into no message with other statements.
_AS_NEW = "CLOSE ALL; SET SESSION AUTHORIZATION DEFAULT; RESET ALL; DEALLOCATE ALL; UNLISTEN *; SELECT pg_catalog.pg_advisory_unlock_all()" \
    "; DISCARD PLANS; DISCARD TEMP; DISCARD SEQUENCES"
#: So many seconds a transaction may be older than the run that is done in it.
_FRESH = 0.1


@dataclass(slots=True)
class Transaction:
    """One that is open."""

    #: Whether another one follows at once, which its commit may begin.
    is_followed: bool = False


class Session(Generic[Db]):
    """A connection, and what is known of the session behind it."""

    def __init__(self, transport: Transport[Db], db: Db, *, is_own: bool, is_pooled: bool = False, is_shared: bool = False, role: str = "none",
                 lock_timeout: int = 0) -> None:
        """is_own: the worker has made it. is_pooled: a pooler is in between. is_shared: with others, by that. role: the one of its login.
        lock_timeout: in milliseconds."""
        self.db, self.is_own, self.is_pooled, self.is_shared, self._transport = db, is_own, is_pooled, is_shared, transport
        #: Whether a handler has had it since it was new.
        self.is_used = False
        limits = dict.fromkeys(_LIFTED, 0) | ({"lock_timeout": lock_timeout} if lock_timeout else {})
        # Settings of the connection string stay. A session of the caller is left as it is.
        settings = [f"SET LOCAL {name} = {limit}" for name, limit in limits.items() if name not in _named_in(db.info.options)]
        self._begin = "; ".join(["BEGIN ISOLATION LEVEL READ COMMITTED READ WRITE", *settings, f"SET LOCAL {MARK} = here"])
        self._next = f"COMMIT; {self._begin}"
        self._role = sql.Identifier(role).as_string(None) if role != "none" else "NONE"
        self._reset = _AS_NEW if role == "none" else f"{_AS_NEW}; RESET ROLE"  # which its login has set
        self._resets = 0
        #: When the commit of the last transaction has begun the next one.
        self._begun_at: Optional[float] = None
        self._client_side = db.row_factory, db.cursor_factory, db.prepare_threshold  # type: ignore[attr-defined]

    @asynccontextmanager
    async def transaction(self) -> AsyncIterator[Transaction]:
        """READ COMMITTED READ WRITE, without the limits of time that role and database set."""
        one = Transaction()
        if not self.is_own:
            async with self._transport.savepoint(self.db):
                yield one
            return
        await self._begin_one()
        try:
            yield one
        except BaseException:
            with suppress(psycopg.Error):  # a connection that breaks here is found closed
                await self._transport.command(self.db, "ROLLBACK")
            raise
        # A pooler gives the server's session to another client at the commit: that is not kept from it.
        if one.is_followed and not self.is_shared:
            await self._commit_and_begin()
        else:
            await self._transport.command(self.db, "COMMIT")

    async def join(self) -> None:
        """Has the transaction of a connection without autocommit begin, else one of ours would be the outermost, and commit."""
        if not self.db.autocommit:
            await self.ask(Statement("SELECT 1"))

    async def _begin_one(self) -> None:
        begun_at, self._begun_at = self._begun_at, None
        if begun_at is None:
            await self.reset()
            await self._transport.command(self.db, self._begin)
        elif time.monotonic() - begun_at > _FRESH:  # its now() would be too long ago
            await self._transport.command(self.db, f"ROLLBACK; {self._begin}")

    async def _commit_and_begin(self) -> None:
        """In one message, with the reset between them where a handler has had the session."""
        try:
            if self.is_used:
                self._resets += 1
                # The reset is a transaction of its own, which a rollback of the next one does not undo.
                await self._transport.script(self.db, f"COMMIT; BEGIN; {self._reset}; COMMIT; {self._begin} -- {self._resets}")
            else:
                await self._transport.command(self.db, self._next)
        except psycopg.Error:
            if self.db.pgconn.transaction_status != TransactionStatus.INERROR:
                raise  # it has not committed, or nobody knows
            await self._transport.close(self.db)  # what comes after the commit has failed: it will not be new again
            return
        self._begun_at = time.monotonic()
        if self.is_used:
            self._take_back()

    @property
    def is_fit(self) -> bool:
        """Whether another transaction can begin."""
        return self._begun_at is not None or not self.is_own or self.db.pgconn.transaction_status == TransactionStatus.IDLE

    async def ask(self, statement: Statement) -> Rows:
        return await self._transport.ask(self.db, statement)

    async def say(self, statement: Statement, gives_up: Callable[[], bool], *, is_followed_by_rows: bool = False) -> Rows:
        """In a transaction of its own, again and again where that meets a conflict, until `gives_up`."""

        async def once() -> Rows:
            async with self.transaction() as transaction:
                rows = await self.ask(statement)
                transaction.is_followed = is_followed_by_rows and bool(rows)
                return rows

        rows: Rows = await self.again_at_conflict(once, gives_up)
        return rows

    async def again_at_conflict(self, once: Callable[[], Any], gives_up: Callable[[], bool]) -> Any:
        pause = 0.02
        while True:
            try:
                return await once()
            except CONFLICTS:
                if gives_up() or not self.is_own:  # in a transaction of the caller it would meet the same again
                    raise
                await self._transport.sleep(jittered(pause))
                pause = min(pause * 2, 1.0)
            except PREPARED_ELSEWHERE:
                if not self.unprepare():
                    raise

    def unprepare(self) -> bool:
        """Prepares nothing any more; whether it did."""
        did = self.db.prepare_threshold is not None
        self.db.prepare_threshold = None
        self._client_side = (*self._client_side[:2], None)
        return did

    async def take_back_role(self) -> None:
        """The role that claimed the run ends it, whichever role the handler has become."""
        if self.is_own:
            await self._transport.command(self.db, f"SET LOCAL SESSION AUTHORIZATION DEFAULT; SET LOCAL ROLE {self._role}")

    async def reset(self) -> None:
        """To a new session, as far as it is ours alone; outside a transaction."""
        if self._begun_at is not None:
            self._begun_at = None
            await self._transport.script(self.db, "ROLLBACK")
        if not self.is_used:
            return
        self._take_back()
        if not self.is_shared and self.is_own:
            # psycopg forgets what it has prepared only where it has not seen the same text before.
            self._resets += 1
            await self._transport.script(self.db, f"DISCARD ALL -- {self._resets}")
            if self._role != "NONE":  # which its login has set
                await self._transport.script(self.db, "RESET ROLE")

    def _take_back(self) -> None:
        """What a handler may have changed of the connection."""
        self.is_used = False
        self.db.row_factory, self.db.cursor_factory, self.db.prepare_threshold = self._client_side  # type: ignore[attr-defined]


_WHO = Statement("SELECT pg_backend_pid(), current_setting('role')")


class Sessions(Generic[Db]):
    """At most so many at a time; those that are free wait here for who comes next."""

    def __init__(self, transport: Transport[Db], source: Source, size: int, prepare: bool, pooler: Pooler[Db], lock_timeout: int = 0) -> None:
        self._transport, self._source, self._pooler, self._lock_timeout = transport, source, pooler, lock_timeout
        #: Whether statements are prepared, where there is no pooler.
        self.prepare = prepare
        self._free, self._idle = transport.semaphore(size), deque[Session[Db]]()

    @asynccontextmanager
    async def session(self) -> AsyncIterator[Session[Db]]:
        """It is closed where an exception comes out of the block."""
        async with self._free:
            try:
                session = self._idle.pop()
            except IndexError:
                session = await self._open()
            try:
                yield session
                await session.reset()
            except BaseException:
                await self._transport.close(session.db)
                raise
            if session.db.pgconn.transaction_status == TransactionStatus.IDLE:
                self._idle.append(session)
            else:  # closed, or what a rollback could not end
                await self._transport.close(session.db)

    async def _open(self) -> Session[Db]:
        db = await self._transport.connect(self._source)
        try:
            threshold, db.prepare_threshold = db.prepare_threshold, None
            [[process, role]] = await self._transport.ask(db, _WHO)
            is_pooled = process != db.info.backend_pid
            is_shared = is_pooled and await self._pooler.shares(self._source, db)
            if self.prepare and not is_pooled:  # another client's statement may have the same name
                db.prepare_threshold = threshold
            return Session(self._transport, db, is_own=True, is_pooled=is_pooled, is_shared=is_shared, role=str(role), lock_timeout=self._lock_timeout)
        except BaseException:
            await self._transport.close(db)
            raise

    async def close(self) -> None:
        """Closes those that are free."""
        with suppress(IndexError):
            while True:
                await self._transport.close(self._idle.pop().db)


class CallersSession(Sessions[Db]):
    """The one of who calls, in a transaction of his, which nobody opens, resets or closes here."""

    def __init__(self, session: Session[Db]) -> None:
        self._session = session

    @asynccontextmanager
    async def session(self) -> AsyncIterator[Session[Db]]:
        yield self._session

    async def close(self) -> None:
        """It is not ours."""


class Pooler(Generic[Db]):
    """Whether what a server's process keeps between two transactions may reach another client.

    A pooler gives out process ids of its own. In session mode each connection keeps its process; in transaction mode two that take turns
    meet the same one, or the same one meets two."""

    def __init__(self, transport: Transport[Db]) -> None:
        self._transport, self._one = transport, transport.semaphore(1)
        self._found: dict[Source, bool] = {}

    async def shares(self, source: Source, db: Db) -> bool:
        async with self._one:
            if source not in self._found:
                self._found[source] = await self._look(source, db)
            return self._found[source]

    async def _look(self, source: Source, db: Db) -> bool:
        other, met = await self._transport.connect(source), set[tuple[int, object]]()
        other.prepare_threshold = None
        try:
            for _ in range(4):
                for number, each in enumerate((db, other)):
                    [[process, _]] = await self._transport.ask(each, _WHO)
                    met.add((number, process))
        finally:
            await self._transport.close(other)
        return len(met) != 2 or len({process for _, process in met}) != 2


def is_statement_pooling(error: BaseException) -> bool:
    """PgBouncer in statement mode knows no transactions, and no other connection would."""
    return isinstance(error, psycopg.Error) and "statement pooling mode" in str(error)
