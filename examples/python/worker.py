#!/usr/bin/env python3
"""A worker for one queue of the scheduler: claims executions, does their work, and says how it went. Copy it and replace `work`.

The connection comes from the usual PG* environment variables.  The work runs in the same transaction as finish_success, so
that either both count or neither does: a worker that lost its lease cannot commit.  When the connection breaks, the program ends
with an error and its lease runs out: let whatever starts your services start it again.
"""

import argparse
import signal
import sys
import threading
import time

import psycopg
from psycopg import sql
from psycopg.rows import namedtuple_row
from psycopg.types.json import Jsonb

POLL_SECONDS = 5.0  # a notification comes much earlier; this is for those that got lost

stopping = threading.Event()


def work(db, execution, lease, log_to):
    """REPLACE THIS with what your jobs do, for example by execution.job_name.

    `db` is in a transaction: what is written through it is kept only if the work succeeds.  Raise an exception when it fails.
    Long work calls lease.check() now and then, or lease.sleep(), so that it stops when it was cancelled or its lease is lost.
    """
    payload = execution.payload
    if "command" in payload:  # a line of a crontab: an example runs no shell commands, it only says what it would run
        what = f"would run as {payload.get('user') or 'this user'}: {payload['command']}"
    else:
        what = payload.get("message", "nothing to do")
    if execution.attempt <= payload.get("failing_attempts", 0):
        raise RuntimeError(f"attempt {execution.attempt} was told to fail")
    lease.sleep(payload.get("seconds", 0))  # pretends to be busy
    if log_to:
        insert = sql.SQL("insert into {} (execution_id, attempt, what) values (%s, %s, %s)").format(sql.Identifier(*log_to.split(".")))
        db.execute(insert, (execution.execution_id, execution.attempt, what))
    return {"what": what}


class Stopped(Exception):
    """The work must not go on: it was cancelled, or the lease is lost."""


class Lease:
    """Sends heartbeats while the work runs, from a thread with a connection of its own, because the work's is busy."""

    def __init__(self, heartbeats, db, execution):
        self.heartbeats, self.db, self.execution = heartbeats, db, execution
        self.over = threading.Event()  # the work has ended
        self.stop = threading.Event()  # the work has to end
        self.reason = None
        self.thread = threading.Thread(target=self.beat, daemon=True)

    def __enter__(self):
        self.thread.start()
        return self

    def __exit__(self, *_):
        self.over.set()
        self.thread.join()

    def beat(self):
        while not self.over.wait(self.execution.lease_seconds / 3):
            try:
                row = self.heartbeats.execute(
                    "select sched.heartbeat(%s, %s)", (self.execution.execution_id, self.execution.lease_token)
                ).fetchone()
                if row[0] == "ok":
                    continue
                self.reason = row[0]  # 'cancel'
            except psycopg.Error as error:  # 55000: another worker has the lease; or the connection is gone
                self.reason = str(error).splitlines()[0]
            self.stop.set()
            self.db.cancel_safe()  # interrupts the statement that the work may be waiting for
            return

    def check(self):
        self.sleep(0)

    def sleep(self, seconds):
        if self.stop.wait(seconds):
            raise Stopped(self.reason)


def claim(db, queue):
    """Leases one execution, or none. Committed at once, so that everyone sees who has it."""
    return db.execute(
        "select *, extract(epoch from stale_after - clock_timestamp())::float8 as lease_seconds"
        " from sched.claim(queue => %s, max_claims => 1)",
        (queue,),
    ).fetchone()


def run(db, heartbeats, execution, log_to):
    """Does the work of one execution and reports it; false when the lease was lost and there was nothing to report."""
    name = f"{execution.job_name} planned for {execution.plan_time:%H:%M:%S}"
    key = (execution.execution_id, execution.lease_token)
    try:
        with db.transaction():
            with Lease(heartbeats, db, execution) as lease:
                result = work(db, execution, lease, log_to)
            lease.check()
            db.execute("select sched.finish_success(%s, %s, result => %s)", (*key, Jsonb(result)))
        say(f"{name}: {result['what']}")
        return True
    except Exception as error:  # the transaction is rolled back
        code = getattr(error, "sqlstate", None) or type(error).__name__
        try:
            db.execute("select sched.finish_failure(%s, %s, error_code => %s, error_msg => %s)", (*key, code, str(error)))
        except psycopg.errors.ObjectNotInPrerequisiteState:
            say(f"{name}: lease lost, rolled back")
            return False
        say(f"{name}: failed: {error}")
        return True


def wait_for_work(db):
    """Until a notification comes, or the next poll is due, or the worker is to stop (which is looked at twice a second)."""
    poll_at = time.monotonic() + POLL_SECONDS
    while not stopping.is_set() and time.monotonic() < poll_at:
        if list(db.notifies(timeout=0.5, stop_after=1)):
            return


def say(text):
    print(text, flush=True)


def main():
    options = argparse.ArgumentParser(description="claims executions of one queue and does their work")
    options.add_argument("--queue", default="default", help="the queue to claim from (default: default)")
    options.add_argument("--until-idle", action="store_true", help="leave when nothing is left to claim")
    options.add_argument("--max", type=int, metavar="N", help="leave after N finished executions")
    options.add_argument("--log-to", metavar="TABLE", help="write a row (execution_id, attempt, what) for each execution that succeeds")
    options = options.parse_args()

    for number in (signal.SIGTERM, signal.SIGINT):  # finish the current execution, then leave
        signal.signal(number, lambda *_: stopping.set())

    connection = {"autocommit": True, "row_factory": namedtuple_row, "fallback_application_name": "worker.py"}
    with psycopg.connect(**connection) as db, psycopg.connect(**connection) as heartbeats:
        db.execute(sql.SQL("listen {}").format(sql.Identifier(f"sched:{options.queue}")))  # before the first look
        finished = 0
        while not stopping.is_set() and finished != options.max:
            execution = claim(db, options.queue)
            if execution:
                finished += run(db, heartbeats, execution, options.log_to)
            elif options.until_idle:
                break
            else:
                wait_for_work(db)


if __name__ == "__main__":
    try:
        main()
    except psycopg.OperationalError as error:  # the server is down, or the connection broke
        sys.exit(f"worker.py: {error}")
