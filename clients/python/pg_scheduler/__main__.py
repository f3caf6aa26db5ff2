"""pg-scheduler MODULE:WORKER --queue NAME: runs a worker that a module of yours defines."""

import argparse
import asyncio
import importlib
import logging
import os
import sys

from .asyncio import AsyncWorker
from .core import CLAIM, primary
from .sync import Worker


def main() -> None:
    options = argparse.ArgumentParser(prog="pg-scheduler", description="runs a worker")
    options.add_argument("worker", metavar="MODULE:WORKER", help="where it is, as in app.jobs:worker")
    options.add_argument("--queue", help="the queue to claim from, instead of the worker's own")
    options.add_argument("--dsn", help="the connection string, instead of the worker's own")
    options.add_argument("--slots", type=int, help="how many runs at a time, instead of the worker's own")
    options.add_argument("--drain", action="store_true", help="end when nothing is left to claim")
    given = options.parse_args()
    module, _, name = given.worker.partition(":")
    sys.path.insert(0, os.getcwd())
    worker = getattr(importlib.import_module(module), name or "worker", None)
    if not isinstance(worker, (Worker, AsyncWorker)):
        options.error(f"{given.worker} is no Worker and no AsyncWorker")
    logging.basicConfig(level=logging.INFO, format="%(asctime)s %(name)s %(message)s")
    worker.conninfo = worker.conninfo if given.dsn is None else primary(given.dsn)
    worker.slots = given.slots or worker.slots
    if given.queue is not None:
        worker.queue, worker.claim = given.queue, (CLAIM, (given.queue, *worker.claim[1][1:]))
    if isinstance(worker, AsyncWorker):
        asyncio.run(worker.drain() if given.drain else worker.run())
    elif given.drain:
        worker.drain()
    else:
        worker.run()


if __name__ == "__main__":
    main()
