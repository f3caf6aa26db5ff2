"""APScheduler 3 with its Postgres job store. A job is a function in the process, which here only looks at the time, so that a fire
costs it no enqueuing. No job may be given up for lateness (by default one that is a second late is)."""

import threading
import time
from datetime import datetime, timezone

import sqlalchemy
from apscheduler.executors.pool import ThreadPoolExecutor
from apscheduler.jobstores.sqlalchemy import SQLAlchemyJobStore
from apscheduler.schedulers.background import BackgroundScheduler
from apscheduler.triggers.interval import IntervalTrigger

from peers import Asked, in_time

late, last = [], threading.Event()


def note(at: float, jobs: int) -> None:
    """The job."""
    late.append(time.time() - at)
    if len(late) == jobs:
        last.set()


def setup(asked: Asked) -> None:
    _store(asked).remove_all_jobs()


def fires(asked: Asked) -> dict:
    scheduler = BackgroundScheduler(
        jobstores={"default": _store(asked)}, executors={"default": ThreadPoolExecutor(10)}, timezone="UTC",
        job_defaults={"misfire_grace_time": None, "coalesce": True},
    )
    scheduler.start(paused=True)
    instants = asked.instants()
    for at in instants:
        trigger = IntervalTrigger(days=1, start_date=datetime.fromtimestamp(at, timezone.utc), timezone="UTC")
        scheduler.add_job("peers.apscheduler:note", trigger, args=[at, asked.jobs])
    in_time(instants)
    scheduler.resume()
    last.wait(asked.timeout)
    scheduler.shutdown(wait=False)
    return {"late": late}


def _store(asked):
    store = SQLAlchemyJobStore(engine=sqlalchemy.create_engine(asked.dsn("postgresql+psycopg")))
    if asked.task == "setup":
        store.start(type("Scheduler", (), {"_logger": None})(), "default")
    return store
