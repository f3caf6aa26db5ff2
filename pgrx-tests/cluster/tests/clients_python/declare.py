"""How an application declares its schedules: each function below is a test, named by the first argument."""

import asyncio
import subprocess
import sys
import uuid
from datetime import datetime, timedelta, timezone

import psycopg
from pg_scheduler import AsyncWorker, DeclaredSchedule, Worker, adeclare_schedules, declare_schedules
from support import db, run_named_test, running, until, workers

GROUPED = "select schedule_name, clock, time_zone, job_name, group_name from sched.schedules order by 1"


def schedules():
    return db.execute(GROUPED).fetchall()


def actions(rows):
    return {row.schedule_name: row.action for row in rows}


def fired(schedule_name):
    """Payload and scope of its executions."""
    execution_id = db.execute("select sched.fire_now(%s)", (schedule_name,)).fetchone()
    return db.execute("select payload, scope_id from sched.execution where id = %s", execution_id).fetchone()


def by_the_functions():
    """What the server says of each; in the caller's transaction; values of Python in place of JSON's."""
    specs = [
        {"schedule_name": "daily", "clock": "0 6 * * *", "time_zone": "Europe/Berlin", "job_name": "effect", "payload": {"n": 1}, "scope_id": uuid.UUID(int=7),
         "jitter": timedelta(minutes=5), "ends_at": datetime(2099, 1, 1, tzinfo=timezone.utc)},
        {"schedule_name": "tidy", "clock": "@hourly", "command": "select 1", "retry_backoff": [timedelta(seconds=1.5), "2 min"], "max_attempts": 3},
    ]
    with psycopg.connect() as own:
        assert declare_schedules(own, "app", specs)[0] == DeclaredSchedule("daily", "created", None)
        own.rollback()
    assert schedules() == []
    assert actions(declare_schedules(db, "app", specs, dry_run=True)) == {"daily": "created", "tidy": "created"}
    assert schedules() == []
    assert actions(declare_schedules(db, "app", specs)) == {"daily": "created", "tidy": "created"}
    assert fired("daily") == ({"n": 1}, str(uuid.UUID(int=7)))
    backoff = db.execute("select retry_backoff from sched.jobs where job_name = 'tidy'").fetchone()
    assert backoff == ([timedelta(seconds=1.5), timedelta(minutes=2)],), backoff

    async def again():
        async with await psycopg.AsyncConnection.connect(autocommit=True) as own:
            return await adeclare_schedules(own, "app", (spec for spec in specs))

    assert actions(asyncio.run(again())) == {"daily": "unchanged", "tidy": "unchanged"}
    as_texts = [{**specs[0], "jitter": "5 min", "ends_at": "2099-01-01 00:00:00+00"}, {**specs[1], "retry_backoff": ["1.5 s", "120 s"]}]
    assert actions(declare_schedules(db, "app", as_texts)) == {"daily": "unchanged", "tidy": "unchanged"}, "a timedelta and a datetime say the same"
    specs[0]["clock"] = "0 7 * * *"
    [altered, kept] = declare_schedules(db, "app", specs[:1], prune=False)
    assert (altered.action, altered.detail) == ("altered", "clock: 0 6 * * * → 0 7 * * *"), altered
    assert kept == DeclaredSchedule("tidy", "unchanged", None)
    assert actions(declare_schedules(db, "app", [])) == {"daily": "dropped", "tidy": "dropped"}


def raises(kind, text, call):
    try:
        call()
    except kind as error:
        assert text in str(error), error
    else:
        raise AssertionError(f"nothing was raised: {text}")


def what_is_refused():
    daily = {"schedule_name": "daily", "clock": "@daily", "job_name": "effect"}
    for kind, text, specs in (
        (TypeError, "several schedules", daily), (TypeError, "a schedule is a dict", ["daily"]), (TypeError, "a payload is a JSON object", [{**daily, "payload": [1]}]),
        (ValueError, "ends_at: ", [{**daily, "ends_at": datetime(2099, 1, 1)}]), (TypeError, "a scope is a scalar", [{**daily, "scope_id": [1]}]),
        (psycopg.errors.InvalidParameterValue, "time_zoen", [{**daily, "time_zoen": "UTC"}]),
    ):
        raises(kind, text, lambda: declare_schedules(db, "app", specs))
    for kind in Worker, AsyncWorker:
        raises(ValueError, "schedule_group=", lambda: kind("", schedules=[daily]))
        raises(TypeError, "a schedule is a dict", lambda: kind("", schedules=["daily"], schedule_group="app"))
        raises(TypeError, "schedules are several", lambda: kind("", schedules=daily, schedule_group="app"))
        raises(ValueError, 'job "report": schedule= needs the worker\'s schedule_group=', lambda: kind("").job("report", print, schedule="@daily"))
        raises(TypeError, "time_zone: there is no such option without schedule=", lambda: kind("").job("report", print, time_zone="UTC"))
        worker = kind("", schedule_group="app")
        raises(TypeError, 'there is no option "time_zoen": did you mean "time_zone"?', lambda: worker.job("report", print, schedule="@daily", time_zoen="UTC"))
        raises(TypeError, "schedule is a clock", lambda: worker.job("report", print, schedule=30))
        raises(ValueError, "one job", lambda: worker.job("*", print, schedule="@daily"))
        raises(ValueError, "has no time zone", lambda: worker.job("report", print, schedule="@daily", ends_at=datetime(2099, 1, 1)))
        several = kind("", queues={"mail": 1, "reports": 1}, schedule_group="app")
        raises(ValueError, "several queues", lambda: several.job("report", print, schedule="@daily"))
        assert not worker.handlers and not several.handlers
    raises(ValueError, "no schedule_group=", lambda: Worker("").declare_schedules(db))
    assert schedules() == []


def at_the_start_of_a_worker():
    """Those of the worker, and those beside its handlers; a job is defined where it is not, and left as it is where it is. Before the first claim."""
    specs = [{"schedule_name": "nightly", "clock": "@daily", "job_name": "effect"}]
    for number, (worker, adapted) in enumerate(workers(schedules=specs, schedule_group="app")):
        new = f"report {number}"
        worker.job(new, adapted(lambda run: None), schedule="30 8 * * mon", time_zone="Europe/Berlin", schedule_payload={"week": 1}, was="report 0")
        worker.job("effect", adapted(lambda run: None), schedule="@monthly")
        planned = worker.declare_schedules(db, dry_run=True) if isinstance(worker, Worker) else None
        if planned is not None:
            assert actions(planned) == {new: "created", "effect": "created", "nightly": "created"}, planned
            assert db.execute("select count(*) from sched.jobs where job_name = %s", (new,)).fetchone() == (0,), "it was a dry run"
        with running(worker):
            until("the schedules", lambda: new in [name for name, *_ in schedules()])
            run = db.execute("select sched.enqueue(%s)", (new,)).fetchone()[0]
            until("its run", lambda: db.execute("select status from sched.execution where id = %s", (run,)).fetchone() == ("SUCCESS",))
        assert schedules() == [
            ("effect", "@monthly", "UTC", "effect", "app"), ("nightly", "@daily", "UTC", "effect", "app"),
            (new, "30 8 * * mon", "Europe/Berlin", new, "app"),
        ], schedules()
        job = "select queue, retry_backoff from sched.jobs where job_name = %s"
        assert db.execute(job, (new,)).fetchone()[0] == "conformance"
        assert db.execute(job, ("effect",)).fetchone()[1] == [timedelta(hours=1)], "it is as it was defined"
        assert fired(new)[0] == {"week": 1}
    several = Worker("", queues={"mail": 1, "reports": 2}, schedule_group="app", transaction="finish")
    several.job("report", lambda run: None, schedule="@daily", queue="reports")
    with running(several):
        until("the schedule", lambda: [name for name, *_ in schedules()] == ["report"])
    assert db.execute("select queue from sched.jobs where job_name = 'report'").fetchone() == ("reports",)
    assert actions(several.declare_schedules(db)) == {"report": "unchanged"}
    assert several.drain() == 0 and Worker("", schedule_group="app").drain() == 0
    assert [name for name, *_ in schedules()] == ["report"], "drain declares nothing"


PROCESS = """
import asyncio, logging, sys
from pg_scheduler import AsyncWorker, Worker
logging.basicConfig(level=logging.INFO, format="%(message)s")
kind = Worker if sys.argv[1] == "threads" else AsyncWorker
worker = kind("", slots=3, schedule_group="app", schedules=[{"schedule_name": "nightly", "clock": "@daily", "job_name": "effect"}])

def work(run):
    worker.stop()

async def awork(run):
    worker.stop()

for job in "one", "two", "three":
    worker.job(job, work if kind is Worker else awork, schedule="@hourly")
ended = worker.run()
if ended is not None:
    asyncio.run(ended)
"""


def several_processes_at_once():
    """The first applies, and the others find nothing to do: no error, and each schedule and job once."""
    kinds = ["threads", "asyncio"] * 3
    processes = [subprocess.Popen([sys.executable, "-c", PROCESS, kind], stderr=subprocess.PIPE, text=True) for kind in kinds]
    try:
        several_processes(processes)
    finally:
        for process in processes:
            process.kill()


def several_processes(all_of_them):
    processes = list(all_of_them)
    until("the schedules", lambda: len(schedules()) == 4)
    until("all to listen", lambda: db.execute("select count(*) from pg_stat_activity where query like 'LISTEN%'").fetchone()[0] >= len(processes))
    printed = []
    while processes:  # each ends with its first run
        db.execute("select sched.enqueue('one')")
        for process in list(processes):
            try:
                printed.append(process.communicate(timeout=0.2)[1])
                assert process.returncode == 0, printed[-1]
                processes.remove(process)
            except subprocess.TimeoutExpired:
                pass
    created = [line for text in printed for line in text.splitlines() if line.endswith(": created")]
    assert sorted(created) == [f'schedule "{name}": created' for name in ("nightly", "one", "three", "two")], printed
    assert not any("Traceback" in text or "altered" in text for text in printed), printed


def a_worker_that_cannot_declare():
    """It raises what the server says, has claimed nothing, and changes nothing."""
    left = db.execute("select sched.enqueue('effect')").fetchone()[0]
    db.execute("select sched.create_schedule('taken', '@daily', 'effect')")
    for worker, adapted in workers(slots=3, schedules=[{"schedule_name": "new", "clock": "@daily", "job_name": "effect"}], schedule_group="app"):
        worker.job("effect", adapted(lambda run: None))
        worker.job("taken", adapted(lambda run: None), schedule="@daily")
        raises(psycopg.errors.DuplicateObject, "taken", lambda: worker.run() if isinstance(worker, Worker) else asyncio.run(worker.run()))
    for clock, kind in ("every nonsense", psycopg.errors.InvalidParameterValue), ("@daily", psycopg.errors.UndefinedObject):
        worker = Worker("", "conformance", schedules=[{"schedule_name": "new", "clock": clock, "job_name": "undefined"}], schedule_group="app")
        raises(kind, 'element 1', worker.run)
    assert [name for name, *_ in schedules()] == ["taken"]
    assert db.execute("select status, attempt from sched.execution where id = %s", (left,)).fetchone() == ("PENDING", 0)
    assert db.execute("select count(*) from sched.jobs where job_name = 'taken'").fetchone() == (0,)


def a_connection_that_breaks():
    """Another one declares; a stop while it waits for another declaration ends the worker."""
    for worker, adapted in workers(slots=2, grace=0.5, schedule_group="app"):
        worker.job("effect", adapted(lambda run: None), schedule="@daily")
        with psycopg.connect() as other:
            declare_schedules(other, "app", [{"schedule_name": "effect", "clock": "@hourly", "job_name": "effect"}])
            with running(worker):
                waits = "select pid from pg_stat_activity where wait_event_type = 'Lock' and query like '%declare_schedules%'"
                until("the worker to wait", lambda: db.execute(waits).fetchone())
                [killed] = db.execute(waits).fetchone()
                db.execute("select pg_terminate_backend(%s)", (killed,))
                until("another connection to wait", lambda: (db.execute(waits).fetchone() or (killed,))[0] != killed)
                other.commit()
                until("the declaration", lambda: [clock for _, clock, *_ in schedules()] == ["@daily"])
        with psycopg.connect() as other:
            declare_schedules(other, "app", [])
            with running(worker):
                until("the worker to wait", lambda: db.execute(waits).fetchone())
            other.rollback()


if __name__ == "__main__":
    run_named_test(globals())
