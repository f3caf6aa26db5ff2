"""How connections are used, and where code runs: what the worker of threads and the worker of asyncio do differently.

All else is written once, as coroutines. With threads they block their thread and never wait for an event loop."""

from __future__ import annotations

import asyncio
import random
from abc import ABC, abstractmethod
from contextlib import AbstractAsyncContextManager
from typing import Any, Callable, Coroutine, Generic, Protocol, Sequence, Union

import psycopg

from .runs import Call, Db
from .statements import Rows, Statement

#: A connection string, or what makes a connection of its own at each call: a function, for asyncio perhaps a coroutine function.
Source = Union[str, Callable[[], Any]]


class Event(Protocol):
    """As of `threading` and of `asyncio`."""

    def set(self) -> None: ...
    def clear(self) -> None: ...
    def is_set(self) -> bool: ...


class Transport(ABC, Generic[Db]):
    #: Whether what `start` began ends when its future is cancelled.
    can_cancel: bool

    @abstractmethod
    async def connect(self, source: Source) -> Db:
        """A connection in autocommit. One that is made here refuses `commit()` and `rollback()`, which are not a handler's to say."""

    @abstractmethod
    async def close(self, db: Db) -> None: ...

    @abstractmethod
    def savepoint(self, db: Db) -> AbstractAsyncContextManager[object]:
        """In a transaction."""

    @abstractmethod
    async def ask(self, db: Db, statement: Statement) -> Rows: ...

    @abstractmethod
    async def script(self, db: Db, text: str) -> None:
        """Statements without parameters and without rows, in one message."""

    @abstractmethod
    async def command(self, db: Db, text: str) -> None:
        """The same, for what begins and ends transactions: each run pays for it."""

    @abstractmethod
    async def notifications(self, db: Db, seconds: float) -> Sequence[psycopg.Notify]:
        """Those that come within so long; it returns with the first."""

    @abstractmethod
    async def call(self, call: Call[Any, Db], argument: object) -> object:
        """Calls the handler, so that `call.interrupt` ends what it waits for."""

    @abstractmethod
    def event(self) -> Event: ...

    @abstractmethod
    async def wait(self, event: Event, seconds: float) -> None:
        """Until it is set, or so long."""

    @abstractmethod
    async def sleep(self, seconds: float) -> None: ...

    @abstractmethod
    def semaphore(self, value: int) -> AbstractAsyncContextManager[object]: ...

    @abstractmethod
    def start(self, part: Coroutine[Any, Any, None]) -> asyncio.Future[None]:
        """Has it run beside the event loop's other work."""


def jittered(seconds: float) -> float:
    """About so long: workers that were started together are not to ask together."""
    return seconds * random.uniform(0.5, 1.5)
