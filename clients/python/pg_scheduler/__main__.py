"""pg-scheduler MODULE:WORKER --queue NAME: runs a worker that a module of yours defines."""

from __future__ import annotations

import argparse
import asyncio
import importlib
import logging
import os
import sys
from typing import Any, Optional

from .aio import AsyncWorker
from .threads import Worker


def main(worker: Worker | AsyncWorker | None = None, options: Optional[argparse.ArgumentParser] = None, given: Any = None) -> None:
    """The command line: of the worker that its first argument names, or of this one. `options` are yours besides; `given` gets all."""
    options = options or argparse.ArgumentParser(description="runs a worker")
    if worker is None:
        options.add_argument("worker", metavar="MODULE:WORKER", help="where it is, as in app.jobs:worker")
    options.add_argument("--queue", help="the queue to claim from, instead of the worker's own")
    options.add_argument("--dsn", help="the connection string, instead of the worker's own")
    options.add_argument("--slots", type=int, help="how many runs at a time, instead of the worker's own")
    options.add_argument("--batch", type=int, help="how many executions a slot claims at once, instead of the worker's own")
    options.add_argument("--until-idle", "--drain", action="store_true", help="leave when nothing is left to claim")
    options.add_argument("--max", type=int, metavar="N", help="leave after N executions that have ended")
    given = options.parse_args(namespace=given)
    if any(number is not None and number < 1 for number in (given.slots, given.batch, given.max)):
        options.error("--slots, --batch and --max are at least 1")
    if worker is None:
        module, _, name = given.worker.partition(":")
        sys.path.insert(0, os.getcwd())
        worker = getattr(importlib.import_module(module), name or "worker", None)
    if not isinstance(worker, (Worker, AsyncWorker)):
        options.error(f"{given.worker} is no Worker and no AsyncWorker")
    logging.basicConfig(level=logging.INFO, format="%(asctime)s %(name)s %(message)s")
    worker.dsn = worker.dsn if given.dsn is None else given.dsn
    if given.queue or given.slots:
        queue = given.queue or " and ".join(worker.queues)
        if not given.queue and len(worker.queues) > 1:
            options.error(f"--slots of which queue? --queue names one of {queue}")
        worker.queues = {queue: given.slots or worker.queues.get(queue) or worker.slots}
    worker.handle_signals = True  # there is no other host
    worker.max_runs, worker.batch = given.max or worker.max_runs, given.batch or worker.batch
    ended: Any = worker.drain() if given.until_idle else worker.run()
    if isinstance(worker, AsyncWorker):
        asyncio.run(ended)


if __name__ == "__main__":
    main()
