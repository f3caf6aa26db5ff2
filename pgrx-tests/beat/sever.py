"""Imported by a test (CELERY_IMPORTS): the first message that is sent breaks the sender's connection to PostgreSQL, before the ledger has heard."""

import psycopg
from celery.signals import after_task_publish

done = []


@after_task_publish.connect
def sever(**_: object) -> None:
    if not done:
        done.append(True)
        with psycopg.connect(autocommit=True) as db:
            db.execute("select pg_terminate_backend(pid, 10000) from pg_stat_activity where query ~ 'executions_of' and pid <> pg_backend_pid()")
