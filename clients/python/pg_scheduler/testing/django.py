"""For Django's test cases: `class SignupTests(SchedulerTests, TestCase)`."""

from __future__ import annotations

from datetime import datetime, timedelta
from typing import Any, Mapping, Optional, Union

from django.db import connections  # type: ignore[import-untyped,unused-ignore]

from ..threads import Worker
from . import Execution, Statuses, advance, drain, enqueued, reset, reset_committed


class SchedulerTests:
    """The functions of `pg_scheduler.testing` on Django's connection: in a TestCase all is rolled back with the test.

    A TransactionTestCase commits. In test mode each of its tests ends with a reset, so that the next one sees only its own executions."""

    #: The alias of the database that has the extension.
    scheduler_database = "default"

    @property
    def scheduler_connection(self) -> Any:
        return connections[self.scheduler_database]

    def drain(self, worker: Worker, raise_errors: bool = True) -> Statuses:
        return drain(worker, raise_errors, self.scheduler_connection)

    def enqueued(self, job: Optional[str] = None, payload__contains: Optional[Mapping[str, Any]] = None) -> list[Execution]:
        return enqueued(self.scheduler_connection, job, payload__contains)

    def advance(self, by: Union[timedelta, str, float]) -> datetime:
        return advance(self.scheduler_connection, by)

    def reset(self, keep_definitions: bool = True) -> None:
        reset(self.scheduler_connection, keep_definitions)

    def doCleanups(self) -> None:
        self.addCleanup(reset_committed, self.scheduler_connection)  # type: ignore[attr-defined]
        super().doCleanups()  # type: ignore[misc]
