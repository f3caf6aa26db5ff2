"""Imported by a test (CELERY_IMPORTS): once the first message is sent, and before the ledger has heard, FIRST_MESSAGE happens to the sender."""

import os
import signal

import psycopg
from celery.signals import after_task_publish

happens = [os.environ["FIRST_MESSAGE"]]


@after_task_publish.connect
def first(**_):
    what = happens.pop() if happens else None
    if what == "disconnect":
        with psycopg.connect(autocommit=True) as db:
            db.execute("select pg_terminate_backend(pid, 10000) from pg_stat_activity where query ~ 'executions_of' and pid <> pg_backend_pid()")
    elif what:
        os.kill(os.getpid(), signal.Signals[what])
