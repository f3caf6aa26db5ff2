"""What the Python client does with bad handlers, hooks and payloads: each function below is a test, named by the first argument."""

import asyncio
import faulthandler
import inspect
import os
import socket
import sys
import threading
import time
import traceback
from contextlib import contextmanager
from datetime import timedelta

import psycopg
from pg_scheduler import AsyncWorker, Cancelled, Discard, Hooks, Retry, Worker, main

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


def cancel_of_run():
    """It gives back what runs, claims nothing more and leaves no task and no connection behind."""

    async def test():
        begun = asyncio.Event()
        worker = AsyncWorker("", "conformance")

        @worker.job("effect")
        async def effect(run):
            begun.set()
            await run.db.execute("select pg_sleep(60)")

        first, second = enqueue("effect"), enqueue("effect")
        running = asyncio.create_task(worker.run())
        await asyncio.wait_for(begun.wait(), SOON)
        running.cancel()
        await asyncio.wait([running], timeout=SOON)
        assert running.cancelled(), running
        left = asyncio.all_tasks() - {asyncio.current_task()}
        assert not left, left
        assert not worker.held, worker.held
        assert state(first) == state(second) == ("PENDING", 0), (state(first), state(second))

    asyncio.run(test())
    connections = "select count(*) from pg_stat_activity where usename = 'app' and pid <> pg_backend_pid()"
    until("its connections to be gone", lambda: db.execute(connections).fetchone() == (0,))


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
        assert failure(here) == ("FAILED", 1, "Cancelled", "by itself", True), failure(here)
    for handler in cancels_itself, asynchronous(fails(asyncio.CancelledError())):
        worker = AsyncWorker("", "conformance")
        worker.job("effect", handler)
        here = enqueue("effect")
        assert drained(worker) == 1
        assert failure(here)[:3] == ("FAILED", 1, "RuntimeError"), failure(here)


def a_batch_of_which_one_is_cancelled():
    """The others are given back: their attempt does not count, whatever their common statement raised."""
    for worker, adapted in workers(batch=2):
        first, second = enqueue("effect", '{"wait": 1}'), enqueue("effect")
        begun = threading.Event()

        def sleep(runs):
            if any(run.payload for run in runs):
                begun.set()
                return runs[0].db.execute("select pg_sleep(60)")

        async def sleep_of_asyncio(runs):
            slept = sleep(runs)
            if slept is not None:
                await slept

        worker.job("effect", sleep if isinstance(worker, Worker) else sleep_of_asyncio, batch=True)
        with running(worker):
            until("it to run", begun.is_set)
            db.execute("select sched.cancel(%s)", (first,))
            until("the other one to succeed", lambda: state(second) == ("SUCCESS", 1))
            assert state(first)[0] == "CANCELLED", state(first)


def a_second_interruption():
    """It does not hit psycopg while that cancels the statement, which would cost the connection."""

    class Heard(Hooks):
        def broken(self, error, pause):
            raise error

    async def test():
        begun, worker = asyncio.Event(), AsyncWorker("", "conformance", hooks=Heard())

        @worker.job("effect")
        async def effect(run):
            begun.set()
            await run.db.execute("select pg_sleep(60)")

        here = enqueue("effect")
        draining = asyncio.create_task(worker.drain())
        await asyncio.wait_for(begun.wait(), SOON)
        sleeps = "select count(*) from pg_stat_activity where wait_event = 'PgSleep' and usename = 'app'"
        until("it to sleep", lambda: db.execute(sleeps).fetchone() == (1,))
        [run] = worker.held.values()
        while not draining.done():
            run.stop("told to")
            await asyncio.sleep(0)
        assert await draining == 1
        assert failure(here)[:4] == ("FAILED", 1, "cancelled", "told to"), failure(here)

    asyncio.run(test())


def a_session_that_turns_read_only():
    """As on a server that is to be switched over: the worker connects again, where it may write."""
    for worker, _ in workers(poll=0.2):

        def turn(run):
            return run.db.execute("set default_transaction_read_only = on")

        async def turn_of_asyncio(run):
            await turn(run)

        worker.job("effect", turn if isinstance(worker, Worker) else turn_of_asyncio)
        with running(worker):
            for _ in range(2):
                here = enqueue("effect")
                until("it to be done", lambda: state(here) == ("SUCCESS", 1))


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
        (lambda: Coded("coded"), "a?", "coded"),
        (lambda: Nameless(), *unwritable),
        (lambda: Retry(timedelta.max), *unwritable),
        (lambda: Retry(60), "TypeError", "after is no timedelta: 60"),
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
            assert failure(here) == ("FAILED", 1, code, message, True), (failure(here), code)
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
        assert failure(here) == ("FAILED", 1, "handler_error", "its error cannot be written", None), failure(here)


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


@contextmanager
def running(worker):
    thread = threading.Thread(target=worker.run if isinstance(worker, Worker) else lambda: asyncio.run(worker.run()))
    thread.start()
    yield
    worker.stop()
    thread.join(SOON)
    assert not thread.is_alive()


def a_strangers_notification():
    """It has a heartbeat ask, and nothing else. (The lease is so long that none is due.)"""
    stranger = psycopg.connect(user="stranger", autocommit=True)
    for worker, adapted in workers():
        held, may_end = [], threading.Event()

        def wait(run):
            held.append(run)
            until("its end", lambda: may_end.is_set() or run.stop_reason is not None)
            run.check()

        async def wait_in_a_thread(run):
            await asyncio.get_running_loop().run_in_executor(None, wait, run)

        worker.job("long lease", wait if isinstance(worker, Worker) else wait_in_a_thread)
        with running(worker):
            here = enqueue("long lease")
            until("it to run", lambda: held)
            moved = "select stale_after > started_at + interval '1 h' + %s from sched.execution where id = %s"
            since = db.execute("select clock_timestamp() - started_at from sched.execution where id = %s", (here,)).fetchone()[0]
            stranger.execute(f"notify \"sched:cancel\", '{here}'")
            until("a heartbeat", lambda: db.execute(moved, (since, here)).fetchone()[0])
            assert held[0].stop_reason is None, held[0].stop_reason
            may_end.set()
            until("it to succeed", lambda: state(here) == ("SUCCESS", 1))
            # One of who may is believed, as soon.
            held.clear()
            may_end.clear()
            here = enqueue("long lease")
            until("it to run", lambda: held)
            db.execute("select sched.cancel(%s)", (here,))
            until("it to be cancelled", lambda: state(here)[0] == "CANCELLED")


def stop_before_run():
    """It ends at once, and the next time it works."""
    for worker, adapted in workers():
        worker.job("effect", adapted(lambda run: None))
        here = enqueue("effect")
        worker.stop()
        with running(worker):
            pass
        worker.stop()
        assert drained(worker) == 0
        assert state(here) == ("PENDING", 0), state(here)
        assert drained(worker) == 1
        assert state(here) == ("SUCCESS", 1), state(here)


def no_server():
    """Who drains hears of it."""
    for kind in Worker, AsyncWorker:
        ended = drained(kind("port=1", "conformance"))
        assert isinstance(ended, psycopg.OperationalError), ended


def the_command_line():
    for worker, adapted in workers(max_runs=1, slots=3):
        worker.job("effect", adapted(lambda run: None))
        first, second = enqueue("effect"), enqueue("effect")
        for wrong in ("--slots", "-1"), ("--slots", "0"), ("--batch", "0"), ("--max", "0"):
            sys.argv = ["program", *wrong, "--until-idle"]
            try:
                main(worker)
            except SystemExit as ended:
                assert ended.code == 2, ended
            else:
                raise AssertionError(wrong)
        # The worker's own stays where nothing else is said.
        sys.argv = ["program", "--until-idle"]
        main(worker)
        assert (worker.slots, worker.max_runs) == (3, 1)
        assert state(first) == ("SUCCESS", 1) and state(second) == ("PENDING", 0), (state(first), state(second))
        sys.argv = ["program", "--until-idle", "--max", "5"]
        main(worker)
        assert state(second) == ("SUCCESS", 1), state(second)


def a_peer_that_is_gone():
    """The kernel asks whether it is there, and closes the connection where it is not."""
    wanted = {"TCP_KEEPIDLE": 10, "TCP_KEEPINTVL": 5, "TCP_KEEPCNT": 3, "TCP_USER_TIMEOUT": 20_000}
    for worker, adapted in workers():
        found = {}

        def look(run):
            ours = socket.socket(fileno=os.dup(run.db.fileno()))
            found.update({name: ours.getsockopt(socket.IPPROTO_TCP, getattr(socket, name)) for name in wanted})

        worker.conninfo = type(worker)(f"host=127.0.0.1 port={sys.argv[2]}").conninfo
        worker.job("effect", adapted(look))
        enqueue("effect")
        assert drained(worker) == 1
        assert found == wanted, found
    assert "keepalives_idle=99" in Worker("keepalives_idle=99").conninfo


if __name__ == "__main__":
    faulthandler.dump_traceback_later(100, exit=True)
    try:
        test = globals()[sys.argv[1]]
        assert inspect.isfunction(test)
        test()
    except BaseException:
        traceback.print_exc()
        sys.stderr.flush()
        os._exit(1)  # whatever still runs
