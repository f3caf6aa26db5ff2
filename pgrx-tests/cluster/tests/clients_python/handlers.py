"""What the Python client does with bad handlers, hooks and payloads: each function below is a test, named by the first argument."""

import asyncio
import os
import sys
from datetime import datetime, timedelta

import psycopg
from pg_scheduler import AsyncWorker, Cancelled, Discard, Hooks, Retry, Worker
from support import asynchronous, db, drained, enqueue, failure, fails_with, run_named_test, state, workers


def errors_of_their_own():
    """A handler that was not asked to stop has failed, also with the exceptions that mean it was."""

    def fails(error):
        def handler(run):
            raise error

        return handler

    async def cancels_itself(run):
        task = asyncio.get_running_loop().create_future()
        task.cancel()
        await task

    for worker, adapted in workers():
        worker.job("effect", adapted(fails(Cancelled("by itself"))))
        here = enqueue("effect")
        assert drained(worker) == 1
        assert fails_with(here, "Cancelled", "by itself"), failure(here)
    for handler in cancels_itself, asynchronous(fails(asyncio.CancelledError())):
        worker = AsyncWorker("", "conformance")
        worker.job("effect", handler)
        here = enqueue("effect")
        assert drained(worker) == 1
        assert failure(here)[:3] == ("FAILED", 1, "RuntimeError"), failure(here)


class Nameless(Exception):
    sqlstate = 7

    def __str__(self):
        raise ValueError("it has no words")


class Coded(Exception):
    sqlstate = "a\0\udfff"


def unwritable_errors():
    """Neither the worker nor the rest of the batch ends for it."""
    unwritable = "handler_error", "its error cannot be written"
    cases = [
        (lambda: ValueError("a\0b"), "ValueError", "ab"),
        (lambda: ValueError("a\udc00b"), "ValueError", "a?b"),
        (lambda: Coded("coded"), "Coded", "coded"),
        (lambda: Nameless(), "Nameless", "<exception str() failed>"),
        (lambda: Retry(timedelta.max), *unwritable),
        (lambda: Retry("soon"), "TypeError", "neither seconds nor a timedelta nor a datetime: 'soon'"),
        (lambda: Retry(float("nan")), "ValueError", "no number of seconds: nan"),
        (lambda: Retry(datetime(2030, 1, 1)), "ValueError", "datetime.datetime(2030, 1, 1, 0, 0) has no time zone"),
    ]
    for worker, adapted in workers(batch=10):

        def handler(run):
            if "case" in run.payload:
                raise cases[run.payload["case"]][0]()

        worker.job("effect", adapted(handler))
        bad = [enqueue("effect", f'{{"case": {number}}}') for number in range(len(cases))]
        good = enqueue("effect")
        ended = drained(worker)
        assert ended == len(cases) + 1, ended
        for here, (_, code, message) in zip(bad, cases):
            assert fails_with(here, code, message), (failure(here), code)
        assert state(good) == ("SUCCESS", 1), state(good)


def a_retry_after_a_while():
    """By the server's clock, which is not this machine's here."""

    def handler(run):
        raise Retry(timedelta(minutes=30))

    for worker, adapted in workers():
        worker.job("effect", adapted(handler))
        here = enqueue("effect")
        assert drained(worker) == 1
        wait = db.execute("select next_retry_at - finished_at from sched.execution where id = %s", (here,)).fetchone()[0]
        assert timedelta(minutes=29) < wait < timedelta(minutes=31), wait


def a_discard_without_words():
    """It is for good, whatever its words."""

    class Wordless(Discard, Nameless):
        pass

    for worker, adapted in workers():

        def handler(run):
            raise Wordless

        worker.job("effect", adapted(handler))
        here = enqueue("effect")
        assert drained(worker) == 1
        assert failure(here)[:3] == ("FAILED", 1, "Wordless") and failure(here)[4] is None, failure(here)


def a_payload_that_json_refuses():
    """It fails that run, not the one whose commit claimed it."""
    deep = '{"n": ' + "[" * 2000 + "]" * 2000 + "}"
    for batch in 1, 2:
        for worker, adapted in workers(batch=batch):
            worker.job("effect", adapted(lambda run: None))
            good = enqueue("effect")
            long, deeper = enqueue("effect", '{"n": 1e5000}'), enqueue("effect", deep)
            also_good = enqueue("effect", '{"n": "→"}')
            os.environ["PGCLIENTENCODING"] = "LATIN1"  # which has no arrow
            ended = drained(worker)
            assert ended == 4, ended
            assert failure(long)[:3] == ("FAILED", 1, "ValueError"), failure(long)
            assert failure(deeper)[:3] == ("FAILED", 1, "RecursionError"), failure(deeper)
            assert state(good) == state(also_good) == ("SUCCESS", 1), (state(good), state(also_good))


def a_handler_that_would_never_run():
    """A coroutine function or a generator function does nothing when it is called by a thread."""

    async def coroutine(run):
        pass

    def generator(run):
        yield

    async def asynchronous_generator(run):
        yield

    for handler in coroutine, generator, asynchronous_generator:
        worker = Worker("", "conformance")
        worker.job("effect", handler)
        here = enqueue("effect")
        assert drained(worker) == 1
        assert failure(here)[:3] == ("FAILED", 1, "TypeError"), failure(here)
    for handler in asynchronous_generator, lambda run: None:
        worker = AsyncWorker("", "conformance")
        worker.job("effect", handler)
        here = enqueue("effect")
        assert drained(worker) == 1
        assert failure(here)[:3] == ("FAILED", 1, "TypeError"), failure(here)


def a_handler_that_exits():
    """It has failed; its worker goes on. (asyncio ends the program, whatever a task of it catches.)"""
    worker = Worker("", "conformance")
    worker.job("effect", lambda run: sys.exit(3) if run.payload else None)
    bad, good = enqueue("effect", '{"exits": 1}'), enqueue("effect")
    assert drained(worker) == 2
    assert fails_with(bad, "SystemExit", "3"), failure(bad)
    assert state(good) == ("SUCCESS", 1), state(good)


def a_hook_that_raises():
    """It ends the worker, which gives back what it has not worked on."""

    class Bad(Hooks):
        def __init__(self, error):
            self.error = error

        def succeeded(self, run):
            raise self.error

        def failed(self, run, error):
            raise self.error

    def handler(run):
        if run.payload:
            raise ValueError("told to fail")

    for error in ValueError("a hook"), psycopg.OperationalError("a hook"):
        for batch in 1, 2:
            for payload, became in ("{}", "SUCCESS"), ('{"fails": 1}', "FAILED"):
                for worker, adapted in workers(batch=batch, hooks=Bad(error)):
                    worker.job("effect", adapted(handler))
                    first, second = enqueue("effect", payload), enqueue("effect")
                    ended = drained(worker)
                    assert error in (ended, ended.__cause__), repr(ended)
                    assert not worker.held, worker.held
                    assert state(first) == (became, 1), state(first)
                    assert state(second) == ("PENDING", 0), state(second)
                    db.execute("select sched.cancel(%s)", (second,))


if __name__ == "__main__":
    run_named_test(globals())
