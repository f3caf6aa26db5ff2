"""`pg_scheduler.testing`, as an application's tests use it: each function below is a test, named by the first argument."""

import asyncio
import os
import pathlib
import subprocess
import sys
import tempfile
import traceback
import unittest

import psycopg
from pg_scheduler import AsyncWorker, Discard, Snooze, Worker, enqueue_many
from pg_scheduler import enqueue as enqueue_on
from pg_scheduler.testing import drain, enqueued
from support import asynchronous, db, run_named_test, workers


def drained(worker, **options):
    """On connections of the worker."""
    found = drain(worker, **options)
    return asyncio.run(found) if isinstance(worker, AsyncWorker) else found


def handler(run):
    how = run.payload.get("how")
    if how == "fails":
        raise ValueError("told to fail")
    if how == "discards":
        raise Discard("of no use")
    if how == "snoozes":
        raise Snooze(3600)


def of_what_is_committed():
    """Statuses with their counts, the handler's exception with its stack, and the hooks as before."""
    for worker, adapted in workers(batch=2):
        hooks = worker.hooks
        worker.job("effect", adapted(handler))
        enqueue_many(db, "effect", [{}, {}, {"how": "discards"}, {"how": "snoozes"}])
        assert drained(worker, raise_errors=False) == {"FAILED": 1, "PENDING": 1, "SUCCESS": 2}
        assert drained(worker) == {}
        here = enqueue_on(db, "effect", {"how": "fails"})
        try:
            drained(worker)
        except ValueError as error:
            assert "handler" in [frame.name for frame in traceback.extract_tb(error.__traceback__)]
        else:
            raise AssertionError("nothing was raised")
        assert db.execute("select status from sched.execution where id = %s", (here,)).fetchone() == ("FAILED",)
        assert worker.hooks is hooks
        db.execute("select sched.cancel_many()")


def within_a_transaction():
    """All of it can be rolled back, whatever has failed; and in this thread, so that what is bound to a thread is the same."""
    import threading

    here = threading.current_thread()
    for options in {}, {"transaction": "finish"}:
        for autocommit in True, False:
            with psycopg.connect(autocommit=autocommit) as own:
                if autocommit:
                    own.execute("begin")
                worker = Worker("host=nowhere", "conformance", **options)

                @worker.job("effect")
                def effect(run):
                    assert threading.current_thread() is here
                    if options:
                        with run.finishing() as own_again:
                            own_again.execute("create temp table if not exists written ()")
                    else:
                        run.db.execute("insert into written select")
                    handler(run)
                    return {"one": 1}

                own.execute("create temp table written ()")
                enqueue_many(own, "effect", [{}, {}])
                assert [each.payload for each in enqueued(own, "effect")] == [{}, {}]
                assert drain(worker, connection=own) == {"SUCCESS": 2}
                if not options:
                    enqueue_on(own, "effect", {"how": "fails"})
                    assert drain(worker, raise_errors=False, connection=own) == {"FAILED": 1}
                    assert own.execute("select count(*) from written").fetchone() == (2,)
                assert own.execute("show statement_timeout").fetchone() == ("0",)
                own.rollback()
                assert enqueued(own) == []
    assert db.execute("select count(*) from sched.execution").fetchone() == (0,)


def within_a_transaction_of_asyncio():
    async def test():
        worker = AsyncWorker("host=nowhere", "conformance")
        worker.job("effect", asynchronous(handler))
        async with await psycopg.AsyncConnection.connect() as own:
            await own.execute("select sched.enqueue('effect')")
            await own.execute("""select sched.enqueue('effect', '{"how": "discards"}')""")
            assert await drain(worker, raise_errors=False, connection=own) == {"FAILED": 1, "SUCCESS": 1}
            await own.rollback()

    asyncio.run(test())
    assert db.execute("select count(*) from sched.execution").fetchone() == (0,)


def what_waits():
    """By job and by a part of the payload, the oldest first."""
    first = enqueue_on(db, "effect", {"to": "ada", "n": 1}, scope_id=7, priority=3)
    second = enqueue_on(db, "effect", {"to": "ada", "n": 2})
    other = enqueue_on(db, "long lease", {"to": "ada"})
    assert [each.execution_id for each in enqueued(db)] == [first, second, other]
    assert [each.execution_id for each in enqueued(db, "effect", payload__contains={"to": "ada"})] == [first, second]
    [found] = enqueued(db, payload__contains={"n": 1})
    assert (found.job_name, found.scope_id, found.priority, found.attempt, found.run_at) == ("effect", "7", 3, 0, None), found
    assert found.payload == {"to": "ada", "n": 1}


SETTINGS = f"""
SECRET_KEY = "of the test"
DATABASES = {{"default": {{"ENGINE": "django.db.backends.postgresql", "NAME": "postgres", "HOST": {os.environ["PGHOST"]!r}, "USER": "app"}}}}
USE_TZ = True
"""

PROJECT = {
    "settings.py": SETTINGS,
    "conftest.py": """
import pytest
pytest_plugins = ["pg_scheduler.testing.plugin"]

@pytest.fixture(scope="session")
def django_db_setup():
    pass  # the database is there
""",
    "pytest.ini": "[pytest]\nDJANGO_SETTINGS_MODULE = settings\npythonpath = .\n",
    "test_mail.py": """
import pytest
from django.db import connection
from pg_scheduler import Worker, enqueue

worker = Worker("host=nowhere", "conformance")

@worker.job("effect")
def effect(run):
    if run.payload.get("fails"):
        raise ValueError("told to fail")
    with connection.cursor() as cursor:  # Django's own, in the test's transaction
        cursor.execute("select count(*) from sched.execution")
        assert cursor.fetchone() == (1,)

@pytest.mark.parametrize("again", [1, 2])
def test_each_sees_its_own(pg_scheduler, again):
    enqueue(connection, "effect", {"to": "ada"})
    [mail] = pg_scheduler.enqueued("effect", payload__contains={"to": "ada"})
    assert pg_scheduler.drain(worker) == {"SUCCESS": 1}
    assert pg_scheduler.enqueued() == []

def test_an_error(pg_scheduler):
    enqueue(connection, "effect", {"fails": True})
    with pytest.raises(ValueError, match="told to fail"):
        pg_scheduler.drain(worker)
""",
}


def with_pytest():
    with tempfile.TemporaryDirectory() as folder:
        for name, text in PROJECT.items():
            pathlib.Path(folder, name).write_text(text)
        ended = subprocess.run([sys.executable, "-m", "pytest", "-q", "-p", "no:cacheprovider", folder], cwd=folder, capture_output=True, text=True)
        assert "3 passed" in ended.stdout and ended.returncode == 0, ended.stdout + ended.stderr
    assert db.execute("select count(*) from sched.execution").fetchone() == (0,)


def with_django():
    import django
    from django.conf import settings

    values = {}
    exec(SETTINGS, values)
    settings.configure(**{name: value for name, value in values.items() if name.isupper()})
    django.setup()
    from django.db import connection
    from django.test import TestCase
    from pg_scheduler.testing.django import SchedulerTests

    worker = Worker("host=nowhere", "conformance")
    worker.job("effect", handler)

    class MailTests(SchedulerTests, TestCase):
        def sends(self):
            enqueue_on(connection, "effect", {"to": "ada"})
            [mail] = self.enqueued("effect")
            self.assertEqual(mail.payload, {"to": "ada"})
            self.assertEqual(self.drain(worker), {"SUCCESS": 1})

        test_one, test_another = sends, sends

        def test_an_error(self):
            enqueue_on(connection, "effect", {"how": "fails"})
            with self.assertRaisesMessage(ValueError, "told to fail"):
                self.drain(worker)
            self.assertEqual(self.enqueued(), [])

    suite = unittest.defaultTestLoader.loadTestsFromTestCase(MailTests)
    assert unittest.TextTestRunner().run(suite).wasSuccessful()
    assert db.execute("select count(*) from sched.execution").fetchone() == (0,)


if __name__ == "__main__":
    run_named_test(globals())
