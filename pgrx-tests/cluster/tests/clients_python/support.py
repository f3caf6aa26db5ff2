"""What these tests share."""

import asyncio
import faulthandler
import inspect
import os
import sys
import threading
import time
import traceback
from contextlib import contextmanager

import psycopg
from pg_scheduler import AsyncWorker, Worker

SOON = 40.0
db = psycopg.connect(autocommit=True)


def until(what, condition):
    limit = time.monotonic() + SOON
    while not condition():
        assert time.monotonic() < limit, f"waited in vain for {what}"
        time.sleep(0.01)


def enqueue(job, payload="{}"):
    return db.execute("select sched.enqueue(%s, %s::text::jsonb)", (job, payload)).fetchone()[0]


def state(execution_id):
    return db.execute("select status, attempt from sched.execution where id = %s", (execution_id,)).fetchone()


def failure(execution_id):
    query = "select status, attempt, error_code, error_msg, next_retry_at > clock_timestamp() + interval '50 min' from sched.execution where id = %s"
    return db.execute(query, (execution_id,)).fetchone()


def fails_with(execution_id, code, message):
    """Whether it has failed so, and is tried again as the job's backoff says. After the message there may be a stack."""
    status, attempt, found, text, is_tried_again = failure(execution_id)
    return (status, attempt, found, is_tried_again) == ("FAILED", 1, code, True) and message in text.split("\n\n")[0]


def drained(worker):
    """The number of runs, or the exception."""
    try:
        return worker.drain() if isinstance(worker, Worker) else asyncio.run(worker.drain())
    except Exception as error:
        return error


def asynchronous(function):
    async def handler(run):
        return function(run)

    return handler


def workers(**options):
    """One of each kind, and what makes a handler for it."""
    yield Worker("", "conformance", **options), lambda function: function
    yield AsyncWorker("", "conformance", **options), asynchronous


@contextmanager
def running(worker):
    thread = threading.Thread(target=worker.run if isinstance(worker, Worker) else lambda: asyncio.run(worker.run()))
    thread.start()
    yield
    worker.stop()
    thread.join(SOON)
    assert not thread.is_alive()


def run_named_test(tests):
    """The test that the first argument names."""
    faulthandler.dump_traceback_later(100, exit=True)
    try:
        test = tests[sys.argv[1]]
        assert inspect.isfunction(test)
        test()
    except BaseException:
        traceback.print_exc()
        sys.stderr.flush()
        os._exit(1)  # whatever still runs
