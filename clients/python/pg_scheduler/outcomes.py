"""What the ledger is told of runs that were rolled back, and whose fault that is."""

from __future__ import annotations

from typing import Any, NamedTuple, Optional

import psycopg

from . import statements
from .errors import Discard, Retry, Snooze, causes, described
from .runs import Call, RunBase
from .sessions import Session
from .statements import Statement

#: Set by an administrator or a failover: no fault of the handler that was connected.
_SHUTDOWNS = (psycopg.errors.AdminShutdown, psycopg.errors.CrashShutdown)


class Outcome(NamedTuple):
    """What the ledger is told of a run that was rolled back."""

    statement: Statement
    is_failure: bool


def is_blameless(session: Session[Any], call: Call[Any, Any], error: BaseException) -> bool:
    """Whether a connection that broke says nothing against the handler: then its attempt does not count.

    The handler did not have it, an administrator ended it, or the pooler itself is gone. Where a server process has died, the handler's statement may
    have ended it, and would do so again."""
    if call.is_handled or not call.was_lent:
        return True
    told = [each for each in causes(error) if isinstance(each, psycopg.Error)]
    if any(isinstance(each, _SHUTDOWNS) for each in told):
        return True
    return session.is_pooled and session.db.broken and all(each.sqlstate is None for each in told)


def outcome(run: RunBase[Any, Any], error: BaseException, is_given_back: bool, note: str = "") -> Optional[Outcome]:
    """None where its lease is lost."""
    key = run.execution_id, run.lease_token
    if run.stop_reason == "shutdown" or (run.stop_reason is None and is_given_back):
        return Outcome(statements.snooze(*key), False)
    if run.stop_reason == "lost":
        return None
    if run.stop_reason is not None:
        return Outcome(statements.fail(*key, "cancelled", run.stop_reason + note, None, False), True)
    if isinstance(error, Snooze):
        return Outcome(statements.snooze(*key, error.until), False)
    code, message = described(error)
    after = error.after if isinstance(error, Retry) else None
    return Outcome(statements.fail(*key, code, message[: 4_000 - len(note)] + note, after, isinstance(error, Discard)), True)


def fixed(run: RunBase[Any, Any], error: BaseException) -> Outcome:
    """What the ledger takes, whatever the error is made of."""
    said = statements.fail(run.execution_id, run.lease_token, "handler_error", "its error cannot be written", None, isinstance(error, Discard))
    return Outcome(said, True)
