"""How a worker of the Python client begins, goes on and stops: each function below is a test, named by the first argument."""

import asyncio
import os
import socket
import sys
import threading

import psycopg
from pg_scheduler import AsyncWorker, Hooks, Worker, main
from pg_scheduler.sessions import primary
from support import SOON, db, drained, enqueue, failure, run_named_test, running, state, until, workers


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


def a_heartbeat_that_breaks_while_it_stops():
    """What still runs keeps its lease, on another connection."""
    for worker, _ in workers():
        may_end = threading.Event()

        def wait(run):
            until("its end", lambda: may_end.is_set() or run.stop_reason is not None)

        async def wait_in_a_thread(run):
            await asyncio.get_running_loop().run_in_executor(None, wait, run)

        worker.job("effect", wait if isinstance(worker, Worker) else wait_in_a_thread)
        here = enqueue("effect")
        with running(worker):
            until("it to run", lambda: state(here)[0] == "RUNNING")
            beaten = "select heartbeat_at > started_at from sched.running where id = %s"
            until("a heartbeat", lambda: db.execute(beaten, (here,)).fetchone() == (True,))
            worker.stop()
            kill = "select count(pg_terminate_backend(pid)) from pg_stat_activity where query = 'COMMIT' and state = 'idle' and usename = 'app' and pid <> pg_backend_pid()"
            assert db.execute(kill).fetchone() == (1,)
            now = db.execute("select clock_timestamp()").fetchone()[0]
            later = "select heartbeat_at > %s from sched.running where id = %s"
            until("a heartbeat after that", lambda: db.execute(later, (now, here)).fetchone() == (True,))
            may_end.set()
            until("it to succeed", lambda: state(here) == ("SUCCESS", 1))


def an_interruption_between_two_statements():
    """It comes again, until a statement runs."""
    worker = Worker("", "conformance", grace=0.1)
    missed = threading.Event()

    def handler(run):
        cancel_safe = run.db.cancel_safe

        def misses(**_):
            run.db.cancel_safe = cancel_safe
            missed.set()

        run.db.cancel_safe = misses
        begun.set()
        assert missed.wait(SOON)
        run.db.execute("select pg_sleep(600)")

    worker.job("effect", handler)
    for cancelled in False, True:
        begun = threading.Event()
        missed.clear()
        here = enqueue("effect")
        with running(worker):
            until("it to run", begun.is_set)
            if cancelled:
                db.execute("select sched.cancel(%s)", (here,))
                until("it to be cancelled", lambda: state(here)[0] == "CANCELLED")
        if not cancelled:
            assert state(here) == ("PENDING", 0), state(here)
            db.execute("select sched.cancel(%s)", (here,))


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

        worker.dsn = f"host=127.0.0.1 port={sys.argv[2]}"
        worker.job("effect", adapted(look))
        enqueue("effect")
        assert drained(worker) == 1
        assert found == wanted, found
    assert "keepalives_idle=99" in primary("keepalives_idle=99")


if __name__ == "__main__":
    run_named_test(globals())
