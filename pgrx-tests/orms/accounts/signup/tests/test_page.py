from django.core import mail
from django.test import TestCase
from pg_scheduler.testing.django import SchedulerTests
from signup.jobs import worker

class SignupTests(SchedulerTests, TestCase):
    def test_the_mail_is_three_days_later(self) -> None:
        self.client.post("/signup", {"email": "ada@example.org"})
        self.drain(worker)
        self.assertEqual(mail.outbox, [])
        self.advance("3 days")
        self.drain(worker)
        self.assertIn(["ada@example.org"], [sent.to for sent in mail.outbox])
