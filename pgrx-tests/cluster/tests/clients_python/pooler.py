"""The Python client behind PgBouncer: each function below is a test, named by the first argument. The second is the pooler's host."""

import asyncio
import logging
import sys
import threading

import psycopg
from pg_scheduler import AsyncWorker, Hooks, Worker, aenqueue, cancel, enqueue_many
from pg_scheduler import enqueue as enqueue_on
from support import asynchronous, db, drained, enqueue, run_named_test, running, state, until

POOLED = f"host={sys.argv[2]} port=6432"
lines = []


class Collected(logging.Handler):
    def emit(self, record):
        lines.append(record.getMessage())


logging.getLogger("pg_scheduler").addHandler(Collected())


class Unbroken(Hooks):
    """No connection is to break."""

    def broken(self, error, pause):
        raise AssertionError from error


def pooled_workers(**options):
    for transaction in "run", "finish":
        options |= {"transaction": transaction, "hooks": Unbroken()}
        yield Worker(POOLED, "conformance", **options), lambda function: function
        yield AsyncWorker(POOLED, "conformance", **options), asynchronous


def warnings():
    return [line for line in lines if "LISTEN" in line]


def slow_and_quick(worker, adapted):
    """More than one lease's length, and as many statements as psycopg prepares one of."""
    ended = threading.Event()

    def sleep(run):
        ended.wait(run.payload.get("seconds", 0))

    async def sleep_of_asyncio(run):
        await asyncio.sleep(run.payload.get("seconds", 0))

    worker.job("effect", sleep if isinstance(worker, Worker) else sleep_of_asyncio)
    with psycopg.connect(POOLED, prepare_threshold=None) as pooled:
        made = [enqueue_on(pooled, "effect", {"seconds": 6}), *enqueue_many(pooled, "effect", [{}] * 20)]
    with running(worker):
        until("all to be done", lambda: all(state(here) == ("SUCCESS", 1) for here in made))


def polls_and_says_so_once():
    for worker, adapted in pooled_workers(slots=5, poll=0.2):
        lines.clear()
        slow_and_quick(worker, adapted)
        assert len(warnings()) == 1, lines


def hears_by_a_direct_connection():
    for worker, adapted in pooled_workers(poll=1000.0, listen_dsn="", slots=2):
        lines.clear()
        done = threading.Event()
        worker.job("effect", adapted(lambda run: done.set()))
        with running(worker):
            until("it to listen", lambda: db.execute("select count(*) from pg_stat_activity where query like 'LISTEN%cancel%'").fetchone() == (1,))
            enqueue("effect")
            until("it to hear", done.is_set)
        assert not warnings(), lines
        until("it to be gone", lambda: db.execute("select count(*) from pg_stat_activity where query like 'LISTEN%cancel%'").fetchone() == (0,))


def leaves_nothing_in_sessions():
    settings = "select current_setting('statement_timeout'), current_setting('idle_in_transaction_session_timeout'), current_setting('pg_scheduler.begun', true)"
    db.execute("alter role app set statement_timeout = '77s'")
    db.execute("alter role app set idle_in_transaction_session_timeout = '3s'")
    for worker, adapted in pooled_workers(slots=3, poll=0.2):
        slow_and_quick(worker, adapted)
        with psycopg.connect(POOLED, autocommit=True, prepare_threshold=None) as pooled:
            for _ in range(10):
                found = pooled.execute(settings).fetchone()
                assert found[:2] == ("77s", "3s") and not found[2], found
                assert pooled.execute("select count(*) from pg_prepared_statements").fetchone() == (0,)
                assert pooled.execute("select count(*) from pg_listening_channels()").fetchone() == (0,)


def hears_and_resets():
    found = []

    def handler(run):
        found.append(run.db.execute("select current_setting('work_mem'), to_regclass('pg_temp.t')").fetchone())
        run.db.execute("set work_mem = '7MB'; create temp table t ()")

    worker = Worker(POOLED, "conformance", poll=1000.0, hooks=Unbroken())
    worker.job("effect", handler)
    with running(worker):
        for _ in range(2):
            here = enqueue("effect")
            until("it to be done", lambda: state(here) == ("SUCCESS", 1))
    assert found[0] == found[1], found
    assert not warnings(), lines


def enqueues_and_runs_no_worker():
    with psycopg.connect(POOLED, autocommit=True, prepare_threshold=None) as pooled:
        here = enqueue_on(pooled, "effect")
        there = enqueue_on(pooled, "effect")
        assert cancel(pooled, there)
    assert state(there)[0] == "CANCELLED"

    async def enqueue_here():
        async with await psycopg.AsyncConnection.connect(POOLED, autocommit=True, prepare_threshold=None) as pooled:
            return await aenqueue(pooled, "effect")

    assert state(asyncio.run(enqueue_here())) == ("PENDING", 0)
    for worker, adapted in pooled_workers():
        worker.job("effect", adapted(lambda run: None))
        for run in worker.run, worker.drain:
            try:
                asyncio.run(run()) if isinstance(worker, AsyncWorker) else run()
            except psycopg.Error as error:
                assert "statement pooling mode" in str(error), error
            else:
                raise AssertionError(run)
    assert state(here) == ("PENDING", 0)
    assert drained(Worker("", "conformance")) == 2


if __name__ == "__main__":
    run_named_test(globals())
