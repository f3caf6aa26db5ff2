"""The handlers, and what enqueues them."""

from django.core.mail import send_mail
from django.db import connection, transaction
from pg_scheduler import Run, Worker, enqueue

from .models import Account


def connect():
    return connection.get_new_connection(connection.get_connection_params())


worker = Worker(connect, queue="mail", slots=2)


@worker.job("welcome")
def welcome(run: Run) -> None:
    run.db.execute("UPDATE signup_account SET welcomed_at = sched.now() WHERE email = %s", (run.payload["to"],))
    send_mail("Welcome", "How do you like it?", "board@example.org", [run.payload["to"]])


@worker.job("digest")
def digest(run: Run) -> None:
    send_mail("Digest", f"{Account.objects.count()} accounts", "board@example.org", ["board@example.org"])


def sign_up(email: str) -> Account:
    with transaction.atomic():
        account = Account.objects.create(email=email)
        with connection.cursor() as cursor:
            cursor.execute("SELECT sched.now() + interval '3 days'")
            [run_at] = cursor.fetchone()
        enqueue(connection, "welcome", {"to": email}, run_at=run_at)
    return account
