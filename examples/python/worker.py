#!/usr/bin/env python3
"""A worker for one queue of the scheduler. Copy it and replace `work`. The connection comes from the usual PG* environment variables."""

import argparse

from pg_scheduler import Run, Worker, main
from psycopg import sql


def work(run: Run) -> dict:
    """REPLACE THIS. What is written through run.db commits with the run's success, or not at all. Raise an exception when it fails."""
    payload = run.payload
    what = payload.get("message") or payload.get("command") or "nothing to do"  # (a line of a crontab is not run, only said)
    if run.attempt <= payload.get("failing_attempts", 0):
        raise RuntimeError(f"attempt {run.attempt} was told to fail")
    run.sleep(payload.get("seconds", 0))  # pretends to be busy
    if given.log_to:
        table = sql.Identifier(*given.log_to.split("."))
        run.db.execute(sql.SQL("insert into {} (execution_id, attempt, what) values (%s, %s, %s)").format(table), (run.execution_id, run.attempt, what))
    return {"what": what}


given = argparse.Namespace()
options = argparse.ArgumentParser(description="claims executions of one queue and does their work")
options.add_argument("--log-to", metavar="TABLE", help="write a row (execution_id, attempt, what) for each execution that succeeds")
worker = Worker()
worker.job("*", work)
main(worker, options, given)
