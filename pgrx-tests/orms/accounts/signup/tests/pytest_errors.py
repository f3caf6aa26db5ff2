"""Handlers that fail: the test goes on in its transaction, as it does after what it catches itself."""

import pytest
from django.db import connection, transaction
from pg_scheduler import Worker, enqueue
from signup.models import Account

worker = Worker("host=nowhere", "trials")


@worker.job("trial")
def trial(run) -> None:
    how = run.payload.get("how")
    if how == "the ORM":
        Account.objects.create(email="taken")
    elif how == "atomic":
        with transaction.atomic():
            Account.objects.create(email="taken")
    elif how == "SQL":
        run.db.execute("INSERT INTO signup_account (email) VALUES ('taken')")
    elif how == "later":
        Account.objects.create(email="other")
        raise ValueError("told to fail")
    else:
        Account.objects.create(email="free")


@pytest.fixture(autouse=True)
def job(pg_scheduler) -> None:
    with connection.cursor() as cursor:
        cursor.execute("SELECT sched.define_job('trial', queue => 'trials', max_attempts => 3)")


@pytest.mark.parametrize("commits", [pytest.param(commits, marks=pytest.mark.django_db(transaction=commits)) for commits in (False, True)])
@pytest.mark.parametrize("how", ["the ORM", "atomic", "SQL", "later"])
def test_an_error_takes_back_its_own_run(pg_scheduler, how, commits) -> None:
    Account.objects.create(email="taken")
    enqueue(connection, "trial", {"how": how})
    enqueue(connection, "trial")
    assert pg_scheduler.drain(worker, raise_errors=False) == {"FAILED": 1, "SUCCESS": 1}
    assert sorted(account.email for account in Account.objects.all()) == ["free", "taken"]


def test_a_retry_comes_when_the_clock_is_moved(pg_scheduler) -> None:
    attempts = []
    tries = Worker("host=nowhere", "trials")

    @tries.job("trial")
    def fails_twice(run) -> None:
        attempts.append(run.attempt)
        if run.attempt < 3:
            raise ValueError("told to fail")

    enqueue(connection, "trial")
    for statuses in {"FAILED": 1}, {"FAILED": 1}, {"SUCCESS": 1}:
        found = pg_scheduler.drain(tries, raise_errors=False)
        assert found == statuses
        assert pg_scheduler.drain(tries) == {}
        pg_scheduler.advance("1 hour")
    assert attempts == [1, 2, 3]
