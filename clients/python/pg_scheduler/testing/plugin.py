"""For pytest: `pytest_plugins = ["pg_scheduler.testing.plugin"]` in conftest.py gives the fixture `pg_scheduler`."""

from __future__ import annotations

from datetime import datetime, timedelta
from typing import Any, Iterator, Mapping, Optional, Union

import pytest

from ..threads import Worker
from . import Execution, Statuses, advance, drain, enqueued, reset, reset_committed


class Scheduler:
    """The functions of `pg_scheduler.testing` on one connection, in its transaction."""

    def __init__(self, connection: Any) -> None:
        self.connection = connection

    def drain(self, worker: Worker, raise_errors: bool = True) -> Statuses:
        return drain(worker, raise_errors, self.connection)

    def enqueued(self, job: Optional[str] = None, payload__contains: Optional[Mapping[str, Any]] = None) -> list[Execution]:
        return enqueued(self.connection, job, payload__contains)

    def advance(self, by: Union[timedelta, str, float]) -> datetime:
        return advance(self.connection, by)

    def reset(self, keep_definitions: bool = True) -> None:
        reset(self.connection, keep_definitions)


@pytest.fixture
def pg_scheduler_connection(request: pytest.FixtureRequest) -> Any:
    """Django's, with pytest-django; a fixture of this name in conftest.py gives another."""
    if not request.config.pluginmanager.has_plugin("django"):
        raise pytest.UsageError("define a fixture pg_scheduler_connection: the connection that the test's own code uses")
    request.getfixturevalue("db")
    from django.db import connection  # type: ignore[import-untyped,unused-ignore]

    return connection


@pytest.fixture
def pg_scheduler(pg_scheduler_connection: Any) -> Iterator[Scheduler]:
    """drain, enqueued, advance and reset, in the test's own transaction.

    A test of Django's with `transaction=True` commits. In test mode it ends with a reset."""
    yield Scheduler(pg_scheduler_connection)
    reset_committed(pg_scheduler_connection)
