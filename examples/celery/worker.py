#!/usr/bin/env python3
"""Hands executions that came from Celery Beat (sched.import_from('celery_beat')) on to Celery. Run as many as you like.

The connection comes from the usual PG* environment variables, the Celery application from --app: it is loaded as `celery beat` loads it, so
that tasks have their own options. An execution is finished when its message is sent: what becomes of the task is Celery's to say. The task has
the execution's id, so that one sent twice, because this program was killed between sending and finishing, is the same task to result backends.

While the broker is down nothing is claimed, and no attempt is lost. While PostgreSQL is down this program connects again. After an outage it
sends of each task the latest plan time, as Beat does (--backlog).
"""

from __future__ import annotations

import argparse
import os
import signal
import sys
import threading
from datetime import datetime
from typing import Any, Mapping, NamedTuple, Sequence
from uuid import UUID

import psycopg
from celery import Celery
from celery.app.utils import find_app
from kombu.exceptions import OperationalError
from kombu.utils.json import loads
from psycopg import sql
from psycopg.conninfo import make_conninfo
from psycopg.rows import class_row

POLL_SECONDS = 5.0  # a notification comes much earlier; this is for those that got lost
MAX_PAUSE = 5.0  # between looks whether what was down is back
MAX_CLAIMS = 50  # so many are late where this program is killed

# A connection that notices that its host is gone, and that is to the primary, unless PG* variables say otherwise.
CONNECTION = make_conninfo(
    keepalives_idle=10, keepalives_interval=5, keepalives_count=3, tcp_user_timeout=20000, fallback_application_name="celery worker.py",
    connect_timeout=os.environ.get("PGCONNECT_TIMEOUT", "10"), target_session_attrs=os.environ.get("PGTARGETSESSIONATTRS", "read-write"),
)

CLAIM = "SELECT execution_id, lease_token, job_name, payload::text FROM sched.claim(%s, max_claims => %s)"
# Of what a schedule has fired: where a later plan time of the same task was sent or waits. Executions of `backfill` and `fire_now` are sent.
LATER = """SELECT e.id, later.plan_time::text
  FROM sched.execution AS e
 CROSS JOIN LATERAL (SELECT l.plan_time FROM sched.executions_of(e.job_name, e.scope_kind, e.scope_id, from_time => e.plan_time) AS l
                      WHERE l.plan_time > e.plan_time AND l.origin = 'schedule'
                        AND (l.status IN ('PENDING', 'RUNNING', 'SUCCESS') OR l.next_retry_at IS NOT NULL)
                      LIMIT 1) AS later
 WHERE e.id = ANY(%s) AND e.origin = 'schedule'"""
SUCCEED = "SELECT sched.finish_success(%s, %s)"
FAIL = "SELECT sched.finish_failure(%s, %s, error_code => %s, error_msg => %s)"
GIVE_BACK = "SELECT sched.snooze(%s, %s, clock_timestamp())"  # it is what it was before the claim, and no attempt is lost
# An execution that is passed over ends as CANCELLED, and says for which plan time.
TELL_LATER = "SELECT sched.heartbeat(%s, %s, progress => jsonb_build_object('passed_over_for', %s::text))"
CANCEL = "SELECT sched.cancel(%s)"
END_CANCELLED = "SELECT sched.finish_failure(%s, %s)"

stopping = threading.Event()


class Execution(NamedTuple):
    """One execution that this program has claimed."""

    execution_id: UUID
    lease_token: UUID
    job_name: str
    payload: str


def load(name: str) -> Celery:
    """The application as `celery beat` loads it: Celery's own fixup sets Django up, then the modules with tasks are imported."""
    app = find_app(name)
    app.loader.init_worker()
    app.finalize()
    return app


def send(app: Celery, execution: Execution) -> None:
    """As Beat itself sends a task: the options are arguments of apply_async, and what they leave open the task's own options say."""
    payload = loads(execution.payload)  # Celery's own, as Beat reads what is in its tables
    options: dict[str, Any] = dict(payload["options"], task_id=str(execution.execution_id))
    options.setdefault("headers", {})["celery_beat_task"] = True
    if payload["queue"]:
        options["queue"] = payload["queue"]
    if isinstance(options.get("expires"), str):
        options["expires"] = datetime.fromisoformat(options["expires"])
    task = app.tasks.get(payload["task"])
    if task:
        task.apply_async(payload["args"], payload["kwargs"], **options)
    else:  # only the workers know it
        app.send_task(payload["task"], payload["args"], payload["kwargs"], **options)


def broker_answers(app: Celery) -> bool:
    """Whether there is a broker to send to."""
    try:
        with app.connection_for_write() as connection:
            connection.ensure_connection(max_retries=1, interval_start=0, timeout=POLL_SECONDS)
    except Exception as error:  # of which kind depends on the broker
        print(f"the broker does not answer: {error}", flush=True)
        return False
    return True


def close_old_connections() -> None:
    """Those of Django that broke, or are old: a signal of the application may use them when a message is sent."""
    if os.environ.get("DJANGO_SETTINGS_MODULE") and "django.db" in sys.modules:
        sys.modules["django.db"].close_old_connections()


class Sender:
    """Claims executions of one queue and sends them."""

    def __init__(self, app: Celery, options: argparse.Namespace) -> None:
        self.app = app
        self.queue: str = options.queue
        self.sends_all: bool = options.backlog == "all"
        self.until_idle: bool = options.until_idle
        self.max: int | None = options.max
        self.finished = 0
        #: How long to wait before the next claim: the broker was down.
        self.pause = 0.0
        #: What is claimed and not ended, with the statement that ends it: also on the next connection, where one broke.
        self.in_hand: dict[UUID, tuple[str, UUID]] = {}

    def is_done(self) -> bool:
        return stopping.is_set() or self.finished == self.max

    def work(self, db: psycopg.Connection[Any]) -> None:
        """Works until there is nothing to do any more, or the connection breaks."""
        for execution_id, (statement, token) in list(self.in_hand.items()):
            self.end(db, execution_id, statement, (execution_id, token))
        db.execute(sql.SQL("LISTEN {}").format(sql.Identifier(f"sched:{self.queue}")))  # before the first look
        while not self.is_done():
            if self.pause:
                stopping.wait(self.pause)
                if stopping.is_set() or not broker_answers(self.app):
                    self.pause = min(2 * self.pause, MAX_PAUSE)
                    continue
            count = MAX_CLAIMS if self.max is None else min(MAX_CLAIMS, self.max - self.finished)
            with db.cursor(row_factory=class_row(Execution)) as cursor:
                claimed = cursor.execute(CLAIM, (self.queue, count)).fetchall()
            if claimed:
                self.hand_on(db, claimed)
            elif self.until_idle:
                return
            else:
                self.pause = 0.0
                list(db.notifies(timeout=POLL_SECONDS, stop_after=1))

    def hand_on(self, db: psycopg.Connection[Any], claimed: Sequence[Execution]) -> None:
        """Ends each of these: it is sent, passed over for a later one, or given back."""
        close_old_connections()
        self.in_hand.update((execution.execution_id, (GIVE_BACK, execution.lease_token)) for execution in claimed)
        later: dict[UUID, str] = {}
        if not self.sends_all:
            later = dict(db.execute(LATER, ([execution.execution_id for execution in claimed],)).fetchall())
        if later:
            self.pass_over(db, [execution for execution in claimed if execution.execution_id in later], later)
        is_down = False
        for execution in claimed:
            key = (execution.execution_id, execution.lease_token)
            if execution.execution_id in later:
                continue
            if is_down or stopping.is_set():
                self.end(db, execution.execution_id, GIVE_BACK, key)
            else:
                is_down = not self.send(db, execution)
        self.pause = min(2 * self.pause + 0.5, MAX_PAUSE) if is_down else 0.0

    def send(self, db: psycopg.Connection[Any], execution: Execution) -> bool:
        """Sends it; false where the broker is down."""
        key = (execution.execution_id, execution.lease_token)
        try:
            send(self.app, execution)
        except Exception as error:
            if isinstance(error, OperationalError) or not broker_answers(self.app):
                print(f"{execution.job_name}: waits, the broker is down: {error}", flush=True)
                self.end(db, execution.execution_id, GIVE_BACK, key)
                return False
            # It cannot be sent as it is: sched.jobs says how often that is tried again.
            print(f"{execution.job_name}: failed: {error}", flush=True)
            words = [text.replace("\0", "").encode(errors="replace").decode() for text in (type(error).__name__, str(error))]
            self.end(db, execution.execution_id, FAIL, (*key, *words))
        else:
            print(f"{execution.job_name}: sent", flush=True)
            self.in_hand[execution.execution_id] = (SUCCEED, execution.lease_token)
            self.end(db, execution.execution_id, SUCCEED, key)
        self.finished += 1
        return True

    def pass_over(self, db: psycopg.Connection[Any], needless: Sequence[Execution], later: Mapping[UUID, str]) -> None:
        """Cancels what later plan times make needless: in one transaction, for it may be much."""
        with db.transaction():
            for execution in needless:
                key = (execution.execution_id, execution.lease_token)
                try:
                    with db.transaction():
                        db.execute(TELL_LATER, (*key, later[execution.execution_id]))
                        db.execute(CANCEL, key[:1])
                        db.execute(END_CANCELLED, key)
                except psycopg.errors.ObjectNotInPrerequisiteState:
                    pass  # somebody else has it by now
        for execution in needless:
            del self.in_hand[execution.execution_id]
            print(f"{execution.job_name}: passed over for {later[execution.execution_id]}", flush=True)
        self.finished += len(needless)

    def end(self, db: psycopg.Connection[Any], execution_id: UUID, statement: str, parameters: Sequence[object]) -> None:
        """Tells the ledger what became of it."""
        try:
            db.execute(statement, parameters)
        except psycopg.errors.ObjectNotInPrerequisiteState as error:
            print(f"{execution_id}: its lease was lost, so it may be sent once more: {error}", flush=True)
        self.in_hand.pop(execution_id, None)


def main() -> None:
    options = argparse.ArgumentParser(description="hands executions of one queue on to Celery")
    options.add_argument("--app", required=True, help="the Celery application, as `celery --app` has it")
    options.add_argument("--queue", default="celery", help="the queue to claim from (default: celery)")
    options.add_argument("--backlog", choices=["latest", "all"], default="latest",
                         help="what is sent of a task of which several plan times wait, as after an outage: the latest (default), or all")
    options.add_argument("--until-idle", action="store_true", help="leave when nothing is left to claim")
    options.add_argument("--max", type=int, metavar="N", help="leave after N finished executions")
    given = options.parse_args()
    for number in (signal.SIGTERM, signal.SIGINT):  # finish the current execution, give back the others, then leave
        signal.signal(number, lambda *_: stopping.set())

    sender = Sender(load(given.app), given)
    pause = 0.5
    while not stopping.is_set():
        try:
            with psycopg.connect(CONNECTION, autocommit=True, prepare_threshold=None) as db:
                pause = 0.5
                sender.work(db)
                return
        except (psycopg.OperationalError, psycopg.InterfaceError, psycopg.errors.ReadOnlySqlTransaction) as error:
            print(f"PostgreSQL is down: {str(error).strip()}", flush=True)
            stopping.wait(pause)
            pause = min(2 * pause, MAX_PAUSE)


if __name__ == "__main__":
    sys.path.insert(0, "")  # an application in this folder
    try:
        main()
    except psycopg.Error as error:  # it may not do what it is to do, or there is no extension
        sys.exit(f"worker.py: {error}")
