"""For pytest-django, which takes this file alone; pytest-xdist shares it out."""

import pytest
from django.core import mail
from django.db import connection
from signup.jobs import sign_up, worker
from signup.models import Account


def ask(question: str):
    with connection.cursor() as cursor:
        cursor.execute(question)
        return cursor.fetchall()


@pytest.fixture(autouse=True)
def nothing_has_fired(pg_scheduler) -> None:
    assert ask("SELECT count(*) FROM sched.execution") == [(0,)]
    assert ask("SELECT count(*) FROM swept") == [(0,)]


EACH = [pytest.param(n, marks=pytest.mark.django_db(transaction=n > 3)) for n in range(1, 7)]


@pytest.mark.parametrize("n", EACH)
def test_the_mail_is_three_days_later(pg_scheduler, client, n) -> None:
    assert client.post("/signup", {"email": f"{n}@example.org"}).status_code == 201
    [welcome] = pg_scheduler.enqueued("welcome")
    assert welcome.payload == {"to": f"{n}@example.org"}
    pg_scheduler.drain(worker)
    assert [sent.to for sent in mail.outbox if sent.subject == "Welcome"] == []
    pg_scheduler.advance("3 days")
    pg_scheduler.drain(worker)
    assert [sent.to for sent in mail.outbox if sent.subject == "Welcome"] == [[f"{n}@example.org"]]
    assert Account.objects.get().welcomed_at >= welcome.run_at


@pytest.mark.parametrize("n", EACH)
def test_three_days_have_three_digests(pg_scheduler, n) -> None:
    sign_up(f"{n}@example.org")
    pg_scheduler.advance("3 days")
    ask("SELECT sched.dispatch_due()")
    assert pg_scheduler.drain(worker) == {"SUCCESS": len(mail.outbox)}
    subjects = [sent.subject for sent in mail.outbox]
    # A fourth one where the test itself goes on over the schedule's hour.
    assert subjects.count("Digest") in (3, 4) and subjects.count("Welcome") == 1


def test_nothing_fires_by_itself(pg_scheduler) -> None:
    ask("SELECT pg_sleep(2)")
    assert pg_scheduler.enqueued() == []
    assert ask("SELECT count(*) FROM swept") == [(0,)]
    assert ask("SELECT count(*) FROM sched.skipped") == [(0,)]
