"""For `manage.py test`: several classes, so that --parallel has something to share out."""

from django.core import mail
from django.db import connection
from django.test import TestCase, TransactionTestCase
from pg_scheduler.testing.django import SchedulerTests
from signup.jobs import worker
from signup.models import Account


def ask(question: str):
    with connection.cursor() as cursor:
        cursor.execute(question)
        return cursor.fetchall() if cursor.description else []


def nothing_has_fired(test) -> None:
    test.assertEqual(ask("SELECT count(*) FROM sched.execution"), [(0,)])
    test.assertEqual(ask("SELECT count(*) FROM swept"), [(0,)])


class Signs:
    """A signup and its mail, in each class below."""

    def test_the_mail_is_three_days_later(self) -> None:
        nothing_has_fired(self)
        self.assertEqual(self.client.post("/signup", {"email": "ada@example.org"}).status_code, 201)
        [welcome] = self.enqueued("welcome", payload__contains={"to": "ada@example.org"})
        self.advance("2 days 23 hours")
        self.drain(worker)
        self.assertEqual([sent for sent in mail.outbox if sent.subject == "Welcome"], [])
        self.advance("1 hour")
        self.drain(worker)
        self.assertEqual([sent.to for sent in mail.outbox if sent.subject == "Welcome"], [["ada@example.org"]])
        self.assertGreaterEqual(Account.objects.get().welcomed_at, welcome.run_at)
        self.assertEqual(self.enqueued("welcome"), [])

    def test_three_days_have_three_digests(self) -> None:
        nothing_has_fired(self)
        self.client.post("/signup", {"email": "bob@example.org"})
        self.advance("3 days")
        ask("SELECT sched.dispatch_due()")
        self.assertEqual(self.drain(worker), {"SUCCESS": len(mail.outbox)})
        subjects = [sent.subject for sent in mail.outbox]
        # A fourth one where the test itself goes on over the schedule's hour.
        self.assertIn(subjects.count("Digest"), (3, 4))
        self.assertEqual(subjects.count("Welcome"), 1)


class FirstTests(Signs, SchedulerTests, TestCase):
    pass


class SecondTests(Signs, SchedulerTests, TestCase):
    def test_nothing_fires_by_itself(self) -> None:
        ask("SELECT pg_sleep(2)")
        nothing_has_fired(self)


class CommittingTests(Signs, SchedulerTests, TransactionTestCase):
    def test_sql_jobs_run_when_they_are_told(self) -> None:
        nothing_has_fired(self)
        ask("INSERT INTO swept VALUES (sched.now() - interval '40 days')")
        self.advance("1 day")
        ask("SELECT sched.dispatch_due()")
        self.assertEqual(set(ask("SELECT status FROM sched.drain_sql()")), {("SUCCESS",)})
        self.assertEqual(ask("SELECT count(*) FROM swept WHERE at < sched.now() - interval '30 days'"), [(0,)])
        ask("DELETE FROM swept")

    def test_nothing_fires_by_itself(self) -> None:
        ask("SELECT pg_sleep(2)")
        nothing_has_fired(self)


class AnotherTests(Signs, SchedulerTests, TransactionTestCase):
    pass
