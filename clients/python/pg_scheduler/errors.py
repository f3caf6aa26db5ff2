"""What a handler raises to say how its run ends, and what is raised in it; how an exception is written into the ledger."""

from __future__ import annotations

import math
import os
import traceback
from datetime import datetime, timedelta
from types import TracebackType
from typing import Iterator, Optional, Union

#: A number is seconds from now, a datetime (with its time zone) is an instant.
Moment = Union[int, float, timedelta, datetime]

MESSAGE_LIMIT = 4_000  # characters, as the ledger's error_msg
_HEAD_LIMIT = 1_000  # of those, for type and message, so that the end of the stack stays
_PACKAGE = os.path.dirname(__file__) + os.sep


class Retry(Exception):
    """Raised by a handler: the attempt has failed, and the next one is `after` from now (None: as the job's backoff says).

    after: seconds, a timedelta, or a datetime with a time zone. Raises TypeError or ValueError where it is none of these."""

    def __init__(self, after: Optional[Moment] = None, message: str = "") -> None:
        super().__init__(message or "to be tried again")
        self.after = None if after is None else moment(after)


class Snooze(Exception):
    """Raised by a handler: the execution is given back until then. The handler's writes are committed with it, and the attempt does not count.

    until: seconds from now, a timedelta, or a datetime with a time zone. A time that has come means at once."""

    def __init__(self, until: Moment, message: str = "") -> None:
        super().__init__(message or f"snoozed: {until}")
        self.until = moment(until)


class Discard(Exception):
    """Raised by a handler: the execution has failed for good, whatever attempts are left."""


class Cancelled(Exception):
    """Raised in a handler that was asked to stop, by `run.check()`, `run.sleep()` and `run.progress()`: the run was cancelled, or the worker ends."""


class LeaseLost(Cancelled):
    """The same where another worker may have the execution by now. Nothing that the handler wrote is kept."""


class TransactionEnded(Exception):
    """The handler has ended the transaction of its run, by COMMIT, ROLLBACK or the like: that is the library's to do. The run fails."""


def moment(value: Moment) -> timedelta | datetime:
    """Raises TypeError where it is no moment, ValueError where it is none that a server understands."""
    if isinstance(value, datetime):
        if value.tzinfo is None:
            raise ValueError(f"{value!r} has no time zone")
        return value
    if isinstance(value, timedelta):
        return value
    if isinstance(value, bool) or not isinstance(value, (int, float)):
        raise TypeError(f"neither seconds nor a timedelta nor a datetime: {value!r}")
    if not math.isfinite(value):
        raise ValueError(f"no number of seconds: {value!r}")
    return timedelta(seconds=value)


def causes(error: BaseException) -> Iterator[BaseException]:
    """It, and what it was raised from or after."""
    seen: list[BaseException] = []
    left: Optional[BaseException] = error
    while left is not None and left not in seen:
        yield left
        seen.append(left)
        left = left.__cause__ or left.__context__


def described(error: BaseException) -> tuple[str, str]:
    """error_code and error_msg: the exception's class; its type and message, then the stack with all causes, cut at its beginning."""
    head = "".join(traceback.format_exception_only(type(error), error)).rstrip()
    stack = "".join(traceback.format_exception(type(error), error, _handlers_part(error))).rstrip()
    if stack == head:
        return writable(type(error).__name__), writable(head)[:MESSAGE_LIMIT]
    head = writable(head)
    if len(head) > _HEAD_LIMIT:
        head = head[: _HEAD_LIMIT - 1] + "…"
    stack = _without_repeated_message(stack, error)
    room = MESSAGE_LIMIT - len(head) - 2
    if len(stack) > room:
        stack = "…" + stack[len(stack) - room + 1 :]
    return writable(type(error).__name__), f"{head}\n\n{stack}"


def writable(text: str) -> str:
    """Without what a text of the server cannot hold."""
    return text.replace("\0", "").encode(errors="replace").decode()


def _without_repeated_message(stack: str, error: BaseException) -> str:
    """The traceback repeats type and message at its end: a long one would push the stack out."""
    head = "".join(traceback.format_exception_only(type(error), error)).rstrip()
    return writable(stack.removesuffix(head).rstrip())


def _handlers_part(error: BaseException) -> Optional[TracebackType]:
    """The traceback from the handler on: the frames of this library above it say nothing of the error."""
    part = error.__traceback__
    while part is not None and part.tb_frame.f_code.co_filename.startswith(_PACKAGE):
        part = part.tb_next
    return part
