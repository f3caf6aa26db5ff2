"""Workers that share a process, and what ends it: each function below is a test, named by the first argument."""

import asyncio
import os
import signal
import subprocess
import sys
import threading

from pg_scheduler import AsyncWorker, Worker, engine
from support import db, drained, enqueue, run_named_test, running, state, until

HEAD = """
import asyncio, signal, sys, threading, time
from pg_scheduler import AsyncWorker, Worker

async def sleep_of_asyncio(run):
    await asyncio.sleep(60)

def sleep(run):
    time.sleep(60)

def with_handler(worker):
    worker.job("*", sleep if isinstance(worker, Worker) else sleep_of_asyncio)
    return worker
"""


def define(queue):
    db.execute("select sched.define_job(%s, queue => %s)", (queue, queue))


def ends_at_sigterm(program, *queues, code=0):
    """Starts it, has it run a job of each queue, and sends SIGTERM: it ends, and has lost no attempt."""
    for queue in queues:
        define(queue)
    made = [enqueue(queue) for queue in queues]
    with subprocess.Popen([sys.executable, "-c", HEAD + program]) as process:
        until("all to run", lambda: [state(here)[0] for here in made] == ["RUNNING"] * len(made))
        process.send_signal(signal.SIGTERM)
        assert process.wait(40) == code, process.returncode
    assert [state(here) for here in made] == [("PENDING", 0)] * len(made), [state(here) for here in made]
    for here in made:
        db.execute("select sched.cancel(%s)", (here,))


def what_a_stop_takes():
    """Less than Docker's ten seconds, also where a thread never ends and the server says nothing."""
    for worker in Worker(), AsyncWorker():
        assert worker.grace + engine.INTERRUPTED + 2 * engine.SILENT < 10


def two_workers_in_one_loop():
    ends_at_sigterm(
        """
async def both():
    await asyncio.gather(with_handler(AsyncWorker("", "a")).run(), with_handler(AsyncWorker("", "b")).run())

asyncio.run(both())
""",
        "a",
        "b",
    )


def workers_of_other_threads():
    """A signal stops them with the one of the main thread, and without one the end of the interpreter does."""
    threads = """
for kind, queue, daemon in (Worker, "a", False), (AsyncWorker, "b", True):
    worker = with_handler(kind("", queue))
    work = worker.run if kind is Worker else lambda worker=worker: asyncio.run(worker.run())
    threading.Thread(target=work, daemon=daemon).start()
"""
    ends_at_sigterm(threads + 'with_handler(Worker("", "c")).run()', "a", "b", "c")
    ends_at_sigterm("signal.signal(signal.SIGTERM, lambda *_: sys.exit(7))" + threads + "while True: signal.pause()", "a", "b", code=7)


def a_host_with_its_own_signals():
    ends_at_sigterm(
        """
async def host():
    ends = asyncio.Event()
    asyncio.get_running_loop().add_signal_handler(signal.SIGTERM, ends.set)
    worker = with_handler(AsyncWorker("", "a", handle_signals=False))
    running = asyncio.create_task(worker.run())
    await ends.wait()
    worker.stop()
    await running
    sys.exit(7)

asyncio.run(host())
""",
        "a",
        code=7,
    )


def a_handler_that_never_ends():
    """Its thread cannot be interrupted; its execution is given back nevertheless."""
    for transaction in "run", "finish":
        ends_at_sigterm(f'with_handler(Worker("", "a", transaction="{transaction}")).run()', "a")


def the_handlers_of_before():
    """They are there again when the worker has ended."""
    told = []
    signal.signal(signal.SIGTERM, lambda *_: told.append("term"))
    for worker in Worker("", "conformance"), AsyncWorker("", "conformance"):
        assert drained(worker) == 0
        os.kill(os.getpid(), signal.SIGTERM)
    assert told == ["term"] * 2, told


def several_queues():
    """One process works on all, hears of all, and drains what one makes for another."""
    define("other")
    for kind in Worker, AsyncWorker:
        worker = kind("", queues={"conformance": 1, "other": 2}, poll=1000.0)
        assert worker.slots == 3
        begun, may_end = threading.Semaphore(0), threading.Event()

        def wait(run):
            begun.release()
            may_end.wait(40)

        async def wait_of_asyncio(run):
            await asyncio.get_running_loop().run_in_executor(None, wait, run)

        def enqueues(run):
            run.db.execute("select sched.enqueue('other')")

        async def enqueues_of_asyncio(run):
            await run.db.execute("select sched.enqueue('other')")

        worker.job("other", wait if kind is Worker else wait_of_asyncio)
        worker.job("effect", enqueues if kind is Worker else enqueues_of_asyncio)
        with running(worker):
            until("it to listen", lambda: db.execute("select count(*) from pg_stat_activity where query like 'LISTEN%cancel%'").fetchone() == (1,))
            made = [enqueue("effect"), enqueue("other")]
            for _ in range(2):
                assert begun.acquire(timeout=40)
            may_end.set()
            until("all to be done", lambda: all(state(here) == ("SUCCESS", 1) for here in made))
        enqueue("effect")
        assert drained(worker) == 2
    for wrong in {"queues": {}}, {"queues": {"a": 0}}, {"queues": {"a": 1}, "slots": 2}, {"transaction": "both"}, {"json": "float"}:
        try:
            Worker("", **wrong)
        except ValueError:
            continue
        raise AssertionError(wrong)


if __name__ == "__main__":
    run_named_test(globals())
