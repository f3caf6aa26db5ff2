"""The Python client while its server is away: no attempt is lost for it. Each function below is a test, named by the first argument."""

import asyncio
import os
import signal
import threading
from contextlib import suppress

import psycopg
import support
from pg_scheduler import AsyncWorker, Worker
from pg_scheduler.testing import drain
from support import enqueue, failure, run_named_test, running, state, until

TERMINATE = "select pg_terminate_backend(pg_backend_pid())"


class Door:
    """Makes connections, or refuses to for so many times."""

    def __init__(self):
        self.refusals = 0
        self.lock = threading.Lock()

    def _pass(self):
        with self.lock:
            if self.refusals:
                self.refusals -= 1
                raise psycopg.OperationalError("refused by the test")

    def connect(self):
        self._pass()
        return psycopg.connect()

    async def connect_asynchronously(self):
        self._pass()
        return await psycopg.AsyncConnection.connect()


def workers(transaction):
    door = Door()
    options = {"transaction": transaction, "poll": 0.2}
    yield door, Worker(door.connect, "conformance", **options)
    door = Door()
    yield door, AsyncWorker(door.connect_asynchronously, "conformance", **options)


def succeeds_in_its_first_attempt(worker):
    with running(worker):
        here = enqueue("effect")
        until("it to succeed", lambda: state(here)[0] not in ("PENDING", "RUNNING"))
        assert state(here) == ("SUCCESS", 1), failure(here)


def when_finishing_begins():
    """The handler has done its work: it waits, and is not called again."""
    for door, worker in workers("finish"):
        calls = []

        def work():
            calls.append(1)
            while worker.sessions._idle:  # as when the server went away
                worker.sessions._idle.pop().db.pgconn.finish()
            door.refusals = 5

        def handler(run):
            work()
            with run.finishing() as own:
                own.execute("select 1")

        async def handler_of_asyncio(run):
            work()
            async with run.finishing() as own:
                await own.execute("select 1")

        worker.job("effect", handler if isinstance(worker, Worker) else handler_of_asyncio)
        succeeds_in_its_first_attempt(worker)
        assert len(calls) == 1 and door.refusals == 0, (calls, door.refusals)


def while_finishing():
    """The run is given back, also where the handler has swallowed the error, and where no connection is to be had at once."""
    for swallows in False, True:
        for door, worker in workers("finish"):
            calls = []

            def goes_away():
                calls.append(1)
                door.refusals = 5 if len(calls) == 1 else 0
                return TERMINATE if len(calls) == 1 else "select 1"

            def handler(run):
                try:
                    with run.finishing() as own:
                        own.execute(goes_away())
                except psycopg.OperationalError:
                    if not swallows:
                        raise

            async def handler_of_asyncio(run):
                try:
                    async with run.finishing() as own:
                        await own.execute(goes_away())
                except psycopg.OperationalError:
                    if not swallows:
                        raise

            worker.job("effect", handler if isinstance(worker, Worker) else handler_of_asyncio)
            succeeds_in_its_first_attempt(worker)
            assert len(calls) == 2, calls


def when_a_run_is_given_back():
    """What an administrator has ended is told once there is a connection, while the lease lasts; also where the handler has wrapped the error."""
    for door, worker in workers("run"):
        calls = []

        def goes_away():
            calls.append(1)
            door.refusals = 5 if len(calls) == 1 else 0
            return TERMINATE if len(calls) == 1 else "select 1"

        def handler(run):
            try:
                run.db.execute(goes_away())
            except psycopg.Error as error:
                raise ValueError("wrapped") from error

        async def handler_of_asyncio(run):
            try:
                await run.db.execute(goes_away())
            except psycopg.Error as error:
                raise ValueError("wrapped") from error

        worker.job("effect", handler if isinstance(worker, Worker) else handler_of_asyncio)
        succeeds_in_its_first_attempt(worker)
        assert len(calls) == 2, calls


def when_a_claim_was_committed():
    """Its answer got lost: the slot gives back what it does not know of. The claim is one by itself, or comes with the end of a run."""
    for transaction in "run", "finish":
        for lost in 1, 2:
            for _, worker in workers(transaction):
                asks, says, claims = worker.transport.ask, worker.transport.command, []

                async def ask(own, statement):
                    rows = await asks(own, statement)
                    if "sched.claim(" in statement.text and any(row[-1] is not None for row in rows):
                        claims.append(own)
                    return rows

                async def command(own, text):
                    await says(own, text)
                    if text.startswith("COMMIT") and len(claims) == lost and claims[-1] is own:
                        claims.append(None)
                        own.pgconn.finish()
                        raise psycopg.OperationalError("its answer got lost")

                async def nothing(run):
                    pass

                worker.transport.ask, worker.transport.command = ask, command
                worker.job("effect", (lambda run: None) if isinstance(worker, Worker) else nothing)
                made = [enqueue("effect") for _ in range(3)]
                with running(worker):
                    until("all to be done", lambda: all(state(here)[0] in ("SUCCESS", "FAILED") for here in made))
                assert [state(here) for here in made] == [("SUCCESS", 1)] * 3, (transaction, lost, worker, claims, [failure(here) for here in made])
                assert None in claims


def when_a_cancel_hits_what_follows_the_commit():
    """COMMIT and the next BEGIN are one message: a cancel may end the second, and the first has committed. What it claimed is done."""
    for _, worker in workers("run"):
        asks, says, claims, cancelled = worker.transport.ask, worker.transport.command, [], []

        async def ask(own, statement):
            rows = await asks(own, statement)
            if "sched.claim(" in statement.text and any(row[-1] is not None for row in rows):
                claims.append(own)
            return rows

        async def command(own, text):
            if text.startswith("COMMIT; ") and len(claims) == 2 and not cancelled:
                cancelled.append(own)
                await says(own, "COMMIT")
                raise psycopg.errors.QueryCanceled("canceling statement due to user request")
            await says(own, text)

        async def nothing(run):
            pass

        worker.transport.ask, worker.transport.command = ask, command
        worker.job("effect", (lambda run: None) if isinstance(worker, Worker) else nothing)
        made = [enqueue("effect") for _ in range(3)]
        with running(worker):
            until("all to be done", lambda: all(state(here)[0] in ("SUCCESS", "FAILED") for here in made))
        assert [state(here) for here in made] == [("SUCCESS", 1)] * 3, [failure(here) for here in made]
        assert cancelled


def when_the_program_ends_around_the_worker():
    """asyncio.run cancels all that is left, the worker's own parts included, when the program returns."""

    async def program():
        worker, begun = AsyncWorker("", "conformance", poll=0.2, handle_signals=False), asyncio.Event()

        async def endless(run):
            begun.set()
            await asyncio.Event().wait()

        worker.job("effect", endless)
        own = asyncio.create_task(worker.run())
        await begun.wait()
        return own

    here = enqueue("effect")
    asyncio.run(program())
    assert state(here) == ("PENDING", 0), failure(here)


def when_the_connection_of_a_drain_breaks():
    """The caller hears of it, in the mode in which a worker would wait for its server."""
    worker, own, pauses = Worker("", "conformance", transaction="finish"), psycopg.connect(autocommit=True), []
    sleeps = worker.transport.sleep

    async def sleep(seconds):
        pauses.append(seconds)
        await sleeps(seconds)

    worker.transport.sleep = sleep

    def handler(run):
        support.db.execute("select pg_terminate_backend(%s)", (own.info.backend_pid,))

    worker.job("effect", handler)
    enqueue("effect")
    try:
        drain(worker, connection=own)
    except psycopg.OperationalError:
        assert not pauses, pauses
        return
    raise AssertionError("it has not raised")


def when_the_handler_has_ended_its_server_process():
    """The server begins anew, and may do so again: the attempt counts, in either mode, and is told once the server is back."""
    for transaction in "run", "finish":
        for _, worker in workers(transaction):

            def crash(own):
                os.kill(own.info.backend_pid, signal.SIGKILL)
                return "select 1"

            def handler(run):
                if transaction == "run":
                    return run.db.execute(crash(run.db)) and None
                with run.finishing() as own:
                    own.execute(crash(own))

            async def handler_of_asyncio(run):
                if transaction == "run":
                    await run.db.execute(crash(run.db))
                    return
                async with run.finishing() as own:
                    await own.execute(crash(own))

            worker.job("effect", handler if isinstance(worker, Worker) else handler_of_asyncio)
            with running(worker):
                here = enqueue("effect")
                until("it to fail", lambda: state_after_a_crash(here) == ("FAILED", 1))
            assert failure(here)[2] == "OperationalError", failure(here)


def state_after_a_crash(execution_id):
    try:
        return state(execution_id)
    except psycopg.OperationalError:
        with suppress(psycopg.OperationalError):
            support.db = psycopg.connect(autocommit=True)


if __name__ == "__main__":
    run_named_test(globals())
