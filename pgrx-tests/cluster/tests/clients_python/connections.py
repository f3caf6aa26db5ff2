"""The Python client's connections: who makes them, and what breaks: each function below is a test, named by the first argument."""

import asyncio
import os
import socket
import threading
from decimal import Decimal

import psycopg
from pg_scheduler import AsyncWorker, Hooks, Snooze, Worker, enqueue_many
from pg_scheduler import enqueue as enqueue_on
from psycopg.rows import dict_row
from support import db, drained, enqueue, failure, run_named_test, running, state, until, workers

KILL = "select count(pg_terminate_backend(pid)) from pg_stat_activity where usename = 'app' and pid <> pg_backend_pid()"


def made_by_a_function():
    """With any row factory; each is closed."""
    made = []

    def connect():
        made.append(psycopg.connect(row_factory=dict_row))
        return made[-1]

    async def connect_asynchronously():
        made.append(await psycopg.AsyncConnection.connect(row_factory=dict_row))
        return made[-1]

    found = []

    async def look(run):
        found.append(await (await run.db.execute("select 1 as one")).fetchone())
        run.db.row_factory = None

    for worker, handler in (
        (Worker(connect, "conformance"), lambda run: found.append(run.db.execute("select 1 as one").fetchone())),
        (AsyncWorker(connect_asynchronously, "conformance"), look),
    ):
        worker.job("effect", handler)
        here = [enqueue("effect"), enqueue("effect")]
        assert drained(worker) == 2
        assert found == [{"one": 1}] * 2, found
        assert [state(each) for each in here] == [("SUCCESS", 1)] * 2
        assert made and all(each.closed for each in made), made
        found.clear()
        made.clear()
    assert isinstance(drained(Worker(lambda: "dbname=app", "conformance")), TypeError)


def broken_while_a_handler_has_none():
    """With transaction="finish" the end is told by another connection, and no attempt is lost."""
    for worker, _ in workers(transaction="finish", poll=0.2):
        begun, may_end = threading.Event(), threading.Event()

        def wait(run):
            begun.set()
            assert may_end.wait(40)
            return {"waited": True}

        async def wait_of_asyncio(run):
            return await asyncio.get_running_loop().run_in_executor(None, wait, run)

        worker.job("effect", wait if isinstance(worker, Worker) else wait_of_asyncio)
        here = enqueue("effect")
        with running(worker):
            until("it to run", begun.is_set)
            db.execute(KILL)
            may_end.set()
            until("it to succeed", lambda: state(here) == ("SUCCESS", 1))


def terminated_by_an_administrator():
    """No fault of the handler's: its run is given back at once. A connection that the handler breaks counts."""
    for worker, _ in workers(poll=0.2):
        calls = []

        def kill(run):
            calls.append(run)
            if len(calls) == 1:
                return run.db.execute("select pg_terminate_backend(pg_backend_pid())")

        async def kill_of_asyncio(run):
            killed = kill(run)
            if killed is not None:
                await killed

        worker.job("effect", kill if isinstance(worker, Worker) else kill_of_asyncio)
        with running(worker):
            here = enqueue("effect")
            until("it to succeed", lambda: state(here) == ("SUCCESS", 1))
        assert len(calls) == 2
    worker = Worker("", "conformance", poll=0.2)
    worker.job("effect", lambda run: run.db.close())
    with running(worker):
        here = enqueue("effect")
        until("it to fail", lambda: state(here) == ("FAILED", 1))


class DeadHooks(Hooks):
    def on_dead(self, run):
        told = run.db.execute("select 1 / 0")
        return told if asyncio.iscoroutine(told) else None


def a_hook_for_the_dead_that_raises():
    """The failure stands, without what the hook wrote, and tells of it."""
    for transaction in "run", "finish":
        for worker, adapted in workers(hooks=DeadHooks(), transaction=transaction):
            db.execute("select sched.define_job('once', queue => 'conformance', max_attempts => 1)")

            def fails(run):
                raise ValueError("told to fail")

            worker.job("once", adapted(fails))
            worker.job("effect", adapted(fails))
            here, not_dead = enqueue("once"), enqueue("effect")
            assert drained(worker) == 2
            status, _, code, message, _ = failure(here)
            assert (status, code) == ("FAILED", "ValueError") and "told to fail" in message and "on_dead: psycopg.errors.DivisionByZero" in message, message
            assert "on_dead" not in failure(not_dead)[3]


def a_lease_that_was_lost():
    """Nothing of it is kept in either mode, and the ledger is told nothing; also where the handler has used its connection."""
    for transaction in "run", "finish":
        for worker, adapted in workers(hooks=Hooks(), transaction=transaction):
            lost = []
            worker.hooks.lost = lost.append

            def loses(run):
                db.execute("select sched.finish_failure(%s, %s)", (run.execution_id, run.lease_token))

            async def loses_with_db(run):
                loses(run)
                if transaction == "run":
                    await run.db.execute("select 1")

            worker.job("effect", loses if isinstance(worker, Worker) else loses_with_db)
            here = enqueue("effect")
            drained(worker)
            assert [run.execution_id for run in lost] == [here], lost
            assert failure(here)[:3] == ("FAILED", 1, "handler_error"), failure(here)


def numbers():
    """Each as the option json has it; a Decimal goes back with all its digits."""
    exact = "0.1234567890123456789"
    for option, expected in ("decimal", Decimal(exact)), (str, None):
        for worker, adapted in workers(json=option):
            found = []

            def take(run):
                found.append(run.payload)
                return {"n": Decimal("0.10"), "m": [Decimal("1E+30")], "o": 2**70}

            worker.job("effect", adapted(take))
            here = enqueue("effect", '{"n": %s}' % exact)
            assert drained(worker) == 1
            assert found == ([{"n": expected}] if expected else ['{"n": %s}' % exact]), found
            result = db.execute("select result::text from sched.execution where id = %s", (here,)).fetchone()[0]
            assert result == '{"m": [1000000000000000000000000000000], "n": 0.10, "o": 1180591620717411303424}', result
    here = enqueue_on(db, "effect", {"n": Decimal("0.1234567890123456789")}, scope_id=Decimal("1.0"), scope_kind=True)
    query = "select payload::text, scope_kind, scope_id from sched.execution where id = %s"
    assert db.execute(query, (here,)).fetchone() == ('{"n": 0.1234567890123456789}', "true", "1.0")
    made = enqueue_many(db, "effect", [{"n": 1}, {"n": 2}], scope_ids=[1, here])
    ids = [db.execute("select scope_id from sched.execution where id = %s", (each,)).fetchone()[0] for each in made]
    assert ids == ["1", str(here)], ids
    for wrong in {"payload": "text"}, {"payload": [1]}, {"scope_id": [1]}, {"runAt": 1}, {"payload": {"n": float("nan")}}:
        try:
            enqueue_on(db, "effect", **wrong)
        except (TypeError, ValueError):
            continue
        raise AssertionError(wrong)


def finishing_in_other_ways():
    """Once, in its mode only; an exception in the block rolls back; one after it comes too late."""
    tried = []

    def attempt(run, how):
        try:
            with run.finishing():
                if how == "raises":
                    raise ValueError("told to fail")
        except RuntimeError as error:
            tried.append(str(error))

    def handler(run):
        how = run.payload["how"]
        if how in ("raises", "twice", "without"):
            attempt(run, how)
        if how == "twice":
            attempt(run, how)
        if how == "snoozes":
            with run.finishing():
                raise Snooze(3600)
            tried.append("went on after a snooze")
        if how == "late":
            attempt(run, how)
            raise ValueError("too late")
        if how == "without":
            run.db.execute("select 1")

    worker = Worker("", "conformance", transaction="finish")
    worker.job("effect", handler)
    here = {how: enqueue("effect", '{"how": "%s"}' % how) for how in ("raises", "twice", "late", "without", "snoozes")}
    assert drained(worker) == 4
    assert state(here["snoozes"]) == ("PENDING", 0)
    db.execute("select sched.cancel(%s)", (here["snoozes"],))
    assert failure(here["raises"])[2] == "ValueError", failure(here["raises"])
    assert [state(here[how]) for how in ("twice", "late", "without")] == [("SUCCESS", 1)] * 3
    assert tried == ["run.finishing() ends a run once"], tried
    worker = Worker("", "conformance")
    worker.job("effect", lambda run: attempt(run, "in its mode"))
    enqueue("effect")
    assert drained(worker) == 1 and len(tried) == 2, tried


def prepared_statements_of_another_session():
    """As a pooler would have it that passes for the server: their names are unknown, or taken. No run has failed for it."""
    for spoils, at in (lambda own: own.exec_(b"deallocate all"), 12), (lambda own: own.prepare(b"_pg3_0", b"select 1"), 1):
        for transaction in "run", "finish":
            for worker, adapted in workers(transaction=transaction):
                calls = []

                def spoil(run):
                    calls.append(run)
                    if len(calls) == at:
                        spoils((run.call.lent or worker.sessions._idle[0].db).pgconn)

                worker.job("effect", adapted(spoil))
                made = enqueue_many(db, "effect", [{}] * 24)
                assert drained(worker) == 24
                assert {state(here) for here in made} == {("SUCCESS", 1)}


def a_conflict_while_finishing():
    """The handler is called again in the same attempt, also where it has swallowed the conflict."""
    db.execute("create table counted (n bigint)")
    count = "insert into counted select coalesce(max(n), 0) + 1 from counted returning n"
    other = psycopg.connect(autocommit=True)
    other.isolation_level = psycopg.IsolationLevel.SERIALIZABLE
    for swallows in False, True:
        for worker, _ in workers(transaction="finish"):
            db.execute("truncate counted")
            calls = []

            def interfere():
                calls.append(1)
                if len(calls) == 1:
                    with other.transaction():
                        other.execute(count)

            def handler(run):
                try:
                    with run.finishing() as own:
                        own.execute("set transaction isolation level serializable")
                        own.execute(count)
                        interfere()
                except psycopg.errors.SerializationFailure:
                    if not swallows:
                        raise

            async def handler_of_asyncio(run):
                try:
                    async with run.finishing() as own:
                        await own.execute("set transaction isolation level serializable")
                        await own.execute(count)
                        interfere()
                except psycopg.errors.SerializationFailure:
                    if not swallows:
                        raise

            worker.job("effect", handler if isinstance(worker, Worker) else handler_of_asyncio)
            here = enqueue("effect")
            assert drained(worker) == 1
            assert state(here) == ("SUCCESS", 1), failure(here)
            assert len(calls) == 2
            assert db.execute("select array_agg(n order by n) from counted").fetchone() == ([1, 2],)


def options_of_the_connection_string():
    """They stay, unlike what role and database say."""
    db.execute("alter role app set statement_timeout = '1s'")

    async def sleep_of_asyncio(run):
        await run.db.execute("select pg_sleep(2)")

    for options, became in ("", "SUCCESS"), ("options='-c statement_timeout=500ms'", "FAILED"):
        for kind in Worker, AsyncWorker:
            worker = kind(options, "conformance")
            worker.job("effect", (lambda run: run.db.execute("select pg_sleep(2)")) if kind is Worker else sleep_of_asyncio)
            here = enqueue("effect")
            assert drained(worker) == 1
            assert state(here) == (became, 1), failure(here)


def a_result_that_is_too_large():
    """It fails its run, in either mode."""
    for transaction in "run", "finish":
        for worker, adapted in workers(transaction=transaction):
            worker.job("effect", adapted(lambda run: {"text": "x" * 20_000}))
            here = enqueue("effect")
            assert drained(worker) == 1
            assert failure(here)[:3] == ("FAILED", 1, "ProgramLimitExceeded"), failure(here)


def a_handler_that_commits():
    """By the driver's own functions, or in any other way: the run has failed, and what can be rolled back is."""
    db.execute("create table written (how text)")
    ways = {
        "commit": lambda own: own.commit(),
        "rollback": lambda own: own.rollback(),
        "text": lambda own: own.execute("rollback"),
        "both": lambda own: own.execute("rollback; begin"),
    }
    for transaction in "run", "finish":
        for worker, _ in workers(transaction=transaction):

            def ends(run):
                if transaction == "run":
                    run.db.execute("insert into written values (%s)", (run.payload["how"],))
                    ways[run.payload["how"]](run.db)
                else:
                    with run.finishing() as own:
                        own.execute("insert into written values (%s)", (run.payload["how"],))
                        ways[run.payload["how"]](own)

            async def ends_of_asyncio(run):
                if transaction == "run":
                    await run.db.execute("insert into written values (%s)", (run.payload["how"],))
                    await ways[run.payload["how"]](run.db)
                else:
                    async with run.finishing() as own:
                        await own.execute("insert into written values (%s)", (run.payload["how"],))
                        await ways[run.payload["how"]](own)

            worker.job("effect", ends if isinstance(worker, Worker) else ends_of_asyncio)
            made = [enqueue("effect", '{"how": "%s"}' % how) for how in ways]
            assert drained(worker) == len(ways)
            for here in made:
                assert failure(here)[:3] == ("FAILED", 1, "TransactionEnded"), failure(here)
            assert db.execute("select count(*) from written").fetchone() == (0,)


def a_savepoint_of_the_handler():
    worker = Worker("", "conformance")

    @worker.job("effect")
    def effect(run):
        try:
            with run.db.transaction():
                run.db.execute("select 1 / 0")
        except psycopg.errors.DivisionByZero:
            pass
        return run.db.execute("select 1").fetchone()

    here = enqueue("effect")
    assert drained(worker) == 1
    assert state(here) == ("SUCCESS", 1), failure(here)


def progress_of_a_locked_lease():
    """It is not waited for, whatever the run's transaction has locked."""
    for worker, _ in workers():

        def handler(run):
            run.db.execute("select sched.assert_lease(%s, %s)", (run.execution_id, run.lease_token))
            run.progress({"done": 1})

        async def handler_of_asyncio(run):
            await run.db.execute("select sched.assert_lease(%s, %s)", (run.execution_id, run.lease_token))
            await run.progress({"done": 1})

        worker.job("effect", handler if isinstance(worker, Worker) else handler_of_asyncio)
        here = enqueue("effect")
        assert drained(worker) == 1
        assert state(here) == ("SUCCESS", 1)


def cut_without_a_word():
    """Between two runs: another one is made, and no worker ends."""
    for worker, adapted in workers(poll=0.5):
        worker.job("effect", adapted(lambda run: None))
        with running(worker):
            for _ in range(3):
                here = enqueue("effect")
                until("the run", lambda: state(here) == ("SUCCESS", 1))
                until("the session to rest", lambda: worker.sessions._idle)
                with socket.socket(fileno=os.dup(worker.sessions._idle[0].db.fileno())) as ours:
                    ours.shutdown(socket.SHUT_RDWR)


def several_in_a_row():
    """Each in a transaction and a session of its own, though the commit of one begins the next; what has failed takes nothing along."""
    for worker, adapted in workers(batch=2):
        seen = []

        def leave(run):
            seen.append(run.payload["n"])
            if run.payload["n"] in (3, 6):
                raise ValueError("told to fail")

        def sync(run):
            seen_here = run.db.execute(LEFT).fetchone()
            run.db.execute(LEAVE)
            assert seen_here == ("", False, 0), seen_here
            leave(run)

        async def asynchronous(run):
            seen_here = await (await run.db.execute(LEFT)).fetchone()
            await run.db.execute(LEAVE)
            assert seen_here == ("", False, 0), seen_here
            leave(run)

        worker.job("effect", sync if isinstance(worker, Worker) else asynchronous)
        ids = [enqueue("effect", '{"n": %d}' % n) for n in range(8)]
        assert drained(worker) == 8
        assert sorted(seen) == list(range(8))
        failed = [n for n, each in enumerate(ids) if state(each)[0] != "SUCCESS"]
        assert failed == [3, 6], [failure(each) for each in ids]
        db.execute("select sched.cancel_many()")


LEFT = "select coalesce(current_setting('my.setting', true), ''), to_regclass('pg_temp.left_behind') is not null," \
    " (select count(*) from pg_locks where locktype = 'advisory' and pid = pg_backend_pid())"
LEAVE = "set my.setting = 'left'; create temp table left_behind (); select pg_advisory_lock(7)"


if __name__ == "__main__":
    run_named_test(globals())
