#!/usr/bin/env python3
"""Hands executions that came from Celery Beat (sched.import_from('celery_beat')) on to Celery. Run as many as you like.

The connection comes from the usual PG* environment variables, the Celery application from --app.  An execution is finished when its
message is sent: what becomes of the task is Celery's to say.  The task has the execution's id, so that one sent twice, because this
program ended between sending and finishing, is the same task to result backends.
"""

import argparse
import signal
import sys
import threading
from datetime import datetime

import psycopg
from celery.app.utils import find_app
from psycopg import sql
from psycopg.rows import namedtuple_row

POLL_SECONDS = 5.0  # a notification comes much earlier; this is for those that got lost

stopping = threading.Event()


def send(app, execution):
    """As Beat itself sends a task: the options are arguments of apply_async."""
    payload = execution.payload
    options = dict(payload["options"])
    if payload["queue"]:
        options["queue"] = payload["queue"]
    if isinstance(options.get("expires"), str):
        options["expires"] = datetime.fromisoformat(options["expires"])
    task = app.tasks.get(payload["task"])  # one that the application knows has options of its own
    options["task_id"] = str(execution.execution_id)
    if task:
        task.apply_async(payload["args"], payload["kwargs"], **options)
    else:
        app.send_task(payload["task"], payload["args"], payload["kwargs"], **options)


def hand_on(app, db, queue):
    """Claims one execution and sends it; false when there was none."""
    execution = db.execute("select * from sched.claim(queue => %s, max_claims => 1)", (queue,)).fetchone()
    if not execution:
        return False
    key = (execution.execution_id, execution.lease_token)
    try:
        send(app, execution)
    except Exception as error:  # the broker is down, or the payload is none of Beat's: sched.jobs says how often it is tried again
        db.execute("select sched.finish_failure(%s, %s, error_code => %s, error_msg => %s)", (*key, type(error).__name__, str(error)))
        print(f"{execution.job_name}: failed: {error}", flush=True)
    else:
        db.execute("select sched.finish_success(%s, %s)", key)
        print(f"{execution.job_name}: sent {execution.payload['task']}", flush=True)
    return True


def main():
    options = argparse.ArgumentParser(description="hands executions of one queue on to Celery")
    options.add_argument("--app", required=True, help="the Celery application, as `celery --app` has it")
    options.add_argument("--queue", default="celery", help="the queue to claim from (default: celery)")
    options.add_argument("--until-idle", action="store_true", help="leave when nothing is left to claim")
    options.add_argument("--max", type=int, metavar="N", help="leave after N finished executions")
    options = options.parse_args()
    for number in (signal.SIGTERM, signal.SIGINT):  # finish the current execution, then leave
        signal.signal(number, lambda *_: stopping.set())

    app = find_app(options.app)
    with psycopg.connect(autocommit=True, row_factory=namedtuple_row, fallback_application_name="celery worker.py") as db:
        db.execute(sql.SQL("listen {}").format(sql.Identifier(f"sched:{options.queue}")))  # before the first look
        finished = 0
        while not stopping.is_set() and finished != options.max:
            if hand_on(app, db, options.queue):
                finished += 1
            elif options.until_idle:
                break
            else:
                list(db.notifies(timeout=POLL_SECONDS, stop_after=1))


if __name__ == "__main__":
    sys.path.insert(0, "")  # an application in this folder
    try:
        main()
    except psycopg.OperationalError as error:  # the server is down, or the connection broke
        sys.exit(f"worker.py: {error}")
