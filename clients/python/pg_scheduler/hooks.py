"""What a worker tells besides its work."""

from __future__ import annotations

import logging
from contextlib import AbstractContextManager, nullcontext
from typing import Any, Awaitable, Optional

log = logging.getLogger("pg_scheduler")


class Hooks:
    """What to do besides the work: by default a line in the log `pg_scheduler`. They are called in the slot's thread, with a Run or an AsyncRun.

    An exception in `around` fails the run. One in `on_dead` takes back what the hook wrote; the failure stands and tells of it. One in another hook
    ends the worker, which gives back what it has not worked on."""

    def around(self, run: Any) -> AbstractContextManager[object]:
        """Entered before the handler is called, and left with its outcome; with transaction="run" inside the run's transaction. The payload is still as in the ledger."""
        return nullcontext()

    def succeeded(self, run: Any) -> None:
        """The run has committed."""
        log.info("%s: done", run)

    def snoozed(self, run: Any) -> None:
        """The run has committed, and its execution waits until later."""
        log.info("%s: snoozed", run)

    def failed(self, run: Any, error: BaseException) -> None:
        """The run was rolled back, and the ledger says so. A payload that json refuses is a text here."""
        log.warning("%s: failed: %s: %s", run, type(error).__name__, error)

    def on_dead(self, run: Any) -> Optional[Awaitable[None]]:
        """The execution has failed for good. Its writes through `run.db` commit with the failure. A coroutine function for `AsyncWorker`.

        Nobody calls it for what failed without a worker: a lease that ran out at the last attempt, or a worker that was killed."""
        return None

    def lost(self, run: Any) -> None:
        """The run was rolled back; its lease was lost, so the ledger was told nothing."""
        log.warning("%s: its lease was lost", run)

    def broken(self, error: BaseException, pause: float) -> None:
        """A connection broke; the worker connects again after about so many seconds."""
        log.warning("connection: %s; again in about %.1f s", str(error).strip(), pause)

    def hears_of_dead(self) -> bool:
        """Whether `on_dead` does anything."""
        return getattr(self.on_dead, "__func__", None) is not Hooks.on_dead
