"""What an application writes with the Python client, for mypy: `tools/check.sh` reads it, nothing runs it."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any
from uuid import UUID

import psycopg
from pg_scheduler import AsyncRun, AsyncWorker, Hooks, Run, Snooze, Worker, enqueue, enqueue_many
from pg_scheduler.testing import drain, enqueued


@dataclass
class Mail:
    to: str
    subject: str


class AsyncDead(Hooks):
    async def on_dead(self, run: AsyncRun[Any]) -> None:
        await run.db.execute("select 1")


class Dead(Hooks):
    def on_dead(self, run: Run[Any]) -> None:
        run.db.execute("select 1")


worker = Worker("", queues={"a": 1}, transaction="finish", hooks=Dead())
aworker = AsyncWorker(lambda: psycopg.AsyncConnection.connect(), hooks=AsyncDead())


@worker.job("mail", payload=Mail)
def mail(run: Run[Mail]) -> dict[str, str]:
    with run.finishing() as db:
        db.execute("select 1")
    return {"to": run.payload.to}


@aworker.job("mail")
async def amail(run: AsyncRun[Any]) -> None:
    await run.progress({"a": 1})
    run.snooze(3)
    raise Snooze(3)


def use(db: psycopg.Connection[tuple[Any, ...]]) -> None:
    made: list[UUID] = [enqueue(db, "mail", {"to": "a"}, scope_id=7), *enqueue_many(db, "mail", [{}])]
    done: dict[str, int] = drain(worker)
    print(made, done, mail, [execution.payload for execution in enqueued(db)])


async def use_asynchronously() -> dict[str, int]:
    return await drain(aworker)
