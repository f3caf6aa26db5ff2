"""celery beat with sqlalchemy-celery-beat, which keeps its schedules in a database. The broker is kombu's in memory: sending costs
beat nothing and is not durable, which is in its favour."""

import threading
import time
from datetime import datetime, timedelta, timezone

import celery
import sqlalchemy
from celery.beat import Service
from celery.signals import after_task_publish
from sqlalchemy_celery_beat.models import IntervalSchedule, PeriodicTask
from sqlalchemy_celery_beat.schedulers import DatabaseScheduler
from sqlalchemy_celery_beat.session import SessionManager

from peers import Asked, in_time


def setup(asked: Asked) -> None:
    engine, _ = _session(asked)
    engine.dispose()


def fires(asked: Asked) -> dict:
    engine, session = _session(asked)
    instants = asked.instants()
    with session() as writer:
        day = IntervalSchedule(every=1, period="days")
        writer.add(day)
        writer.flush()
        writer.execute(sqlalchemy.insert(PeriodicTask), [
            {
                "name": str(index), "task": "bench", "args": f"[{at}]", "schedule_id": day.id, "discriminator": day.discriminator,
                "last_run_at": datetime.fromtimestamp(at, timezone.utc) - timedelta(days=1),
            }
            for index, at in enumerate(instants)
        ])
        writer.commit()
    app = celery.Celery("bench", broker="memory://")
    app.conf.update(
        beat_dburi=asked.dsn("postgresql+psycopg"), timezone="UTC", enable_utc=True, result_expires=None, task_ignore_result=True,
    )
    app.task(name="bench")(_nothing)
    late, last = [], threading.Event()

    @after_task_publish.connect(weak=False)
    def note(body=None, **more):
        late.append(time.time() - body[0][0])
        if len(late) == asked.jobs:
            last.set()

    in_time(instants)
    service = Service(app, scheduler_cls=DatabaseScheduler)
    threading.Thread(target=service.start, daemon=True).start()
    last.wait(asked.timeout)
    return {"late": late}


def _nothing(at):
    pass


def _session(asked):
    manager = SessionManager()
    engine, session = manager.create_session(asked.dsn("postgresql+psycopg"))
    manager.prepare_models(engine)
    return engine, session
