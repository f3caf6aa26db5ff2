"""The statements of a worker. Everything else that it says to the server begins, settles or resets a session (sessions.py)."""

from __future__ import annotations

from datetime import datetime, timedelta
from typing import NamedTuple, Optional, Sequence
from uuid import UUID

import psycopg

Rows = Sequence[Sequence[object]]


class Statement(NamedTuple):
    """A text and its parameters."""

    text: str
    parameters: Sequence[object] = ()


#: A transaction of ours begins with this setting, so that one which a handler has begun does not pass for it.
MARK = "pg_scheduler.begun"
#: The clock that leases and times to come are counted by.
_NOW = "sched.now()"
# The columns of a claim: the first fields of a run, in this order. The payload is text: a payload that a reader refuses fails its own run.
_COLUMNS = "execution_id, lease_token, attempt, max_attempts, job_name, scope_kind, scope_id, date_part('epoch', plan_time), payload::text, run_timeout, " \
    f"date_part('epoch', stale_after - {_NOW})"
_CLAIM = f"SELECT {_COLUMNS} FROM sched.claim(%s, max_claims => %s, runner_id => %s)"
_MARKED = f"current_setting('{MARK}', true)"
# The mark, the runs whose lease does not hold, and what was claimed. A row also where nothing is left to claim.
_FINISH = f"SELECT {_MARKED}, array_agg(id) FROM sched.finish_success_many(%s, %s) AS id"
_FINISH_AND_CLAIM = f"SELECT {_MARKED}, ended.lost, next.* FROM (SELECT array_agg(id) AS lost FROM sched.finish_success_many(%s, %s) AS id) AS ended" \
    f" LEFT JOIN ({_CLAIM}) AS next ON true"
# Executions that this slot has claimed since it began, and whose rows it did not get.
_UNANSWERED = "SELECT id, lease_token FROM sched.running AS r JOIN sched.execution USING (id) WHERE r.runner_id = %s AND r.started_at > sched.now() - %s::interval"
# finish_success would raise where the lease does not hold, and the handler's transaction would be lost with it.
_FINISH_WITH_RESULT = f"SELECT {_MARKED}, CASE answer WHEN 'lost' THEN ARRAY[execution_id] END," \
    " CASE WHEN answer <> 'lost' THEN sched.finish_success(execution_id, %s, result => %s)::text END FROM sched.heartbeat_many(ARRAY[%s], ARRAY[%s])"
_SNOOZE = f"SELECT {_MARKED}, NULL::uuid[], sched.snooze(%s, %s, coalesce(%s::timestamptz, {_NOW} + %s::interval))::text"
_FAIL = f"SELECT sched.finish_failure(%s, %s, error_code => %s, error_msg => %s, next_retry_at => coalesce(%s::timestamptz, {_NOW} + %s::interval)," \
    " terminal => %s)"

#: Fires what is due; how many executions that has made.
DISPATCH = Statement("SELECT sched.dispatch_due()")

Keys = tuple[list[UUID], list[UUID]]


def claim(queue: str, max_claims: int, runner_id: str) -> Statement:
    return Statement(_CLAIM, (queue, max_claims, runner_id))


def unanswered(runner_id: str, since: timedelta) -> Statement:
    return Statement(_UNANSWERED, (runner_id, since))


def finish(keys: Keys) -> Statement:
    return Statement(_FINISH, keys)


def finish_and_claim(keys: Keys, claimed: Statement) -> Statement:
    """In one statement."""
    return Statement(_FINISH_AND_CLAIM, (*keys, *claimed.parameters))


def finish_with_result(execution_id: UUID, lease_token: UUID, result: object) -> Statement:
    return Statement(_FINISH_WITH_RESULT, (lease_token, result, execution_id, lease_token))


def snooze(execution_id: UUID, lease_token: UUID, until: datetime | timedelta = timedelta(0)) -> Statement:
    return Statement(_SNOOZE, (execution_id, lease_token, *_split(until)))


def fail(execution_id: UUID, lease_token: UUID, code: str, message: str, after: Optional[datetime | timedelta], terminal: bool) -> Statement:
    return Statement(_FAIL, (execution_id, lease_token, code, message, *_split(after), terminal))


def heartbeat(keys: Keys) -> Statement:
    """A row for each: ok, cancel or lost. It raises nothing and waits for nobody."""
    return Statement("SELECT answer FROM sched.heartbeat_many(%s, %s)", keys)


def progress(execution_id: UUID, lease_token: UUID, progress: object) -> Statement:
    return Statement("SELECT sched.heartbeat(%s, %s, progress => %s)", (execution_id, lease_token, progress))


def statuses(execution_ids: list[UUID]) -> Statement:
    """Status, and whether another attempt is to come."""
    return Statement("SELECT status, next_retry_at IS NOT NULL FROM sched.execution WHERE id = ANY (%s)", (execution_ids,))


def _split(when: Optional[datetime | timedelta]) -> tuple[Optional[datetime], Optional[timedelta]]:
    return (when, None) if isinstance(when, datetime) else (None, when)


#: The library's own transactions meet these without a fault of anybody's: they are said again.
CONFLICTS = (psycopg.errors.SerializationFailure, psycopg.errors.DeadlockDetected)
#: A pooler has handed the session to another server process, which knows other prepared statements.
PREPARED_ELSEWHERE = (psycopg.errors.DuplicatePreparedStatement, psycopg.errors.InvalidSqlStatementName)
def is_broken(error: psycopg.Error) -> bool:
    """Whether it is the connection that failed, or the server that ends, and not a statement. (OperationalError says neither.)"""
    return error.sqlstate is None or error.sqlstate[:2] == "08" or error.sqlstate[:4] == "57P0"


#: The server takes no writes any more, or is gone: another connection may find one that does.
ELSEWHERE = (psycopg.OperationalError, psycopg.NotSupportedError, psycopg.errors.ReadOnlySqlTransaction)
