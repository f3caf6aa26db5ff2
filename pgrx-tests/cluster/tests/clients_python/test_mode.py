"""`pg_scheduler.testing` in a database in test mode: each function below is a test, named by the first argument."""

import asyncio
from datetime import timedelta

import psycopg
from pg_scheduler import AsyncWorker, Retry, Worker
from pg_scheduler.testing import advance, drain, enqueued, reset
from support import db, run_named_test

with psycopg.connect(user="postgres", autocommit=True) as admin:
    admin.execute("do $$ begin execute format('alter database %I owner to app', current_database()); end $$; select sched.test_mode()")
DAILY = [{"schedule_name": "daily", "clock": "0 9 * * *", "job_name": "effect", "catch_up": "every_plan"}]


def what_three_days_bring():
    """Schedules fire, retries come, and what a run itself makes due."""
    for kind in Worker, AsyncWorker:
        plans = []
        db.execute("select sched.define_job('effect', queue => 'conformance', retry_backoff => '{1 hour}')")

        def note(run):
            plans.append(run.plan_time)
            if run.attempt == 1 and len(plans) == 1:
                raise Retry(timedelta(days=1))

        async def anote(run):
            note(run)

        worker = kind("", "conformance", slots=2, schedules=DAILY, schedule_group="app")
        worker.job("effect", note if kind is Worker else anote)
        worker.job("after", (lambda run: None) if kind is Worker else asynchronous_nothing, schedule="every 1 day after end")
        worker.declare_schedules(db) if kind is Worker else asyncio.run(declared(worker))

        def drained(**options):
            found = drain(worker, **options)
            return asyncio.run(found) if kind is AsyncWorker else found

        assert drained() == {} and enqueued(db) == []
        start = advance(db, 1)
        assert advance(db, "3 days") - start >= timedelta(days=3)
        assert drained(raise_errors=False) == {"FAILED": 1, "SUCCESS": 3}, "three mornings, and one after end"
        assert len(set(plans)) == 3, plans
        assert drained() == {}, "nothing is due twice"
        advance(db, timedelta(days=1))
        assert drained() == {"SUCCESS": 3}, "the fourth morning, the retry of the first, and one more after end"
        assert len(set(plans)) == 4 and len(plans) == 5, plans
        reset(db, keep_definitions=False)
        assert db.execute("select count(*) from sched.schedules").fetchone() == (0,)


async def asynchronous_nothing(run):
    return None


async def declared(worker):
    async with await psycopg.AsyncConnection.connect(autocommit=True) as own:
        await worker.declare_schedules(own)


def within_a_transaction():
    """As in a TestCase: declared, advanced, drained and rolled back."""
    worker = Worker("host=nowhere", "conformance", schedules=DAILY, schedule_group="app")
    plans = []
    worker.job("effect", lambda run: plans.append(run.plan_time))
    for _ in 1, 2:
        plans.clear()
        with psycopg.connect() as own:
            [row] = worker.declare_schedules(own)
            assert row.action == "created"
            advance(own, "3 days")
            assert drain(worker, connection=own) == {"SUCCESS": 3}
            assert drain(worker, connection=own) == {}
            own.rollback()
        assert len(set(plans)) == 3
        assert db.execute("select count(*) from sched.schedules").fetchone() == (0,)

    async def of_asyncio():
        worker = AsyncWorker("host=nowhere", "conformance", schedules=DAILY, schedule_group="app")
        worker.job("effect", asynchronous_nothing)
        async with await psycopg.AsyncConnection.connect() as own:
            await worker.declare_schedules(own)
            await own.execute("select sched.advance('2 days')")
            assert await drain(worker, connection=own) == {"SUCCESS": 2}
            await own.rollback()

    asyncio.run(of_asyncio())


if __name__ == "__main__":
    run_named_test(globals())
