"""Workers for the PostgreSQL extension scheduler: a queue's executions become calls of your functions.

    worker = Worker("dbname=app", queue="reports", slots=4)

    @worker.job("report")
    def report(run: Run) -> None:
        run.db.execute("insert into report (day) values (%s)", (run.payload["day"],))

    worker.run()
"""

from .__main__ import main
from .aio import AsyncRun, AsyncWorker
from .errors import Cancelled, Discard, LeaseLost, Retry, Snooze, TransactionEnded
from .functions import acancel, aenqueue, aenqueue_many, cancel, enqueue, enqueue_many
from .hooks import Hooks
from .schedules import DeclaredSchedule, adeclare_schedules, declare_schedules
from .threads import Run, Worker

__all__ = [
    "AsyncRun", "AsyncWorker", "Cancelled", "DeclaredSchedule", "Discard", "Hooks", "LeaseLost", "Retry", "Run", "Snooze", "TransactionEnded", "Worker",
    "acancel", "adeclare_schedules", "aenqueue", "aenqueue_many", "cancel", "declare_schedules", "enqueue", "enqueue_many", "main",
]
