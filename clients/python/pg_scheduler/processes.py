"""What workers of one process share: signals, and the end of the interpreter."""

from __future__ import annotations

import asyncio
import signal
import threading
from contextlib import contextmanager
from typing import Any, Iterator, Protocol

_SIGNALS = (signal.SIGTERM, signal.SIGINT)


class Stoppable(Protocol):
    grace: float

    def stop(self) -> None: ...


_lock = threading.Lock()
_changed = threading.Condition(_lock)
#: All that work now, and those that signals stop.
_working: list[Stoppable] = []
_signalled: list[Stoppable] = []
#: How many workers of the main thread count on the handlers of signals, and what was there before.
_in_main = 0
_before: dict[signal.Signals, Any] = {}
_watch: list[threading.Thread] = []


@contextmanager
def working(worker: Stoppable, handles_signals: bool) -> Iterator[None]:
    """While it works, SIGTERM and SIGINT stop it, with all others of this process; and so does the end of the interpreter."""
    is_in_main = threading.current_thread() is threading.main_thread()
    with _lock:
        _working.append(worker)
        if handles_signals:
            _signalled.append(worker)
    try:
        if is_in_main and handles_signals:
            _listen()
        if not is_in_main:
            _watch_exit()
        yield
    finally:
        if is_in_main and handles_signals:
            _unlisten()
        with _lock:
            _working.remove(worker)
            if handles_signals:
                _signalled.remove(worker)
            _changed.notify_all()


def _listen() -> None:
    """Only the main thread may handle signals, and it has one event loop at a time."""
    global _in_main
    if _in_main == 0:
        for number in _SIGNALS:
            _before[number] = signal.getsignal(number)
            asyncio.get_running_loop().add_signal_handler(number, _stop_signalled)
    _in_main += 1


def _unlisten() -> None:
    global _in_main
    _in_main -= 1
    if _in_main == 0:
        for number, handler in _before.items():
            asyncio.get_running_loop().remove_signal_handler(number)
            if handler is not None:  # None: not one of Python
                signal.signal(number, handler)
        _before.clear()


def _stop_signalled() -> None:
    with _lock:
        workers = list(_signalled)
    for worker in workers:
        worker.stop()


def _watch_exit() -> None:
    """The interpreter's end waits for this thread, which waits for the main thread's, and then for the workers."""
    with _lock:
        if _watch and _watch[0].is_alive():
            return
        _watch[:] = [threading.Thread(target=_stop_at_exit, name="pg_scheduler exit", daemon=False)]
        _watch[0].start()


def _stop_at_exit() -> None:
    threading.main_thread().join()
    with _lock:
        workers = list(_working)
    for worker in workers:
        worker.stop()
    with _changed:
        _changed.wait_for(lambda: not _working, timeout=max((worker.grace for worker in workers), default=0.0) + 5.0)
