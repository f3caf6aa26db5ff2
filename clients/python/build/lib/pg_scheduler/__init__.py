"""Workers for the PostgreSQL extension scheduler: a queue's executions become calls of your functions.

    worker = Worker("dbname=app", queue="reports", slots=4)

    @worker.job("report")
    def report(run: Run) -> None:
        run.db.execute("insert into report (day) values (%s)", (run.payload["day"],))

    worker.run()
"""

from .__main__ import main
from .core import Cancelled, Discard, Hooks, LeaseLost, Retry
from .enqueue import aenqueue, enqueue
from .workers import AsyncRun, AsyncWorker, Run, Worker

__all__ = ["AsyncRun", "AsyncWorker", "Cancelled", "Discard", "Hooks", "LeaseLost", "Retry", "Run", "Worker", "aenqueue", "enqueue", "main"]
