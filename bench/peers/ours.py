"""Our own functions from asyncpg, the driver that is the fastest for Python: so that no library is compared with pgbench."""

import asyncio
import time

import asyncpg
import uvloop

from peers import Asked, loops

FINISH = "SELECT array_agg(id) AS lost FROM sched.finish_success_many($1, $2) AS id"
NEXT = f"""SELECT ended.lost, next.execution_id, next.lease_token, next.payload
  FROM ({FINISH}) AS ended LEFT JOIN sched.claim('default', $3) AS next ON true"""


def enqueue(asked: Asked) -> dict:
    return uvloop.run(_enqueue(asked))


def drain(asked: Asked) -> dict:
    return uvloop.run(_drain(asked))


async def _connections(asked):
    return await asyncio.gather(*(
        asyncpg.connect(host=asked.host, user="app", database=asked.database) for _ in range(asked.workers)
    ))


async def _enqueue(asked):
    connections = await _connections(asked)
    if asked.batch == 1:
        text, argument = "SELECT sched.enqueue('bench', $1)", '{"n": 1}'
    else:
        text, argument = asked.enqueue_many, ['{"n": 1}'] * asked.batch
    prepared = [await connection.prepare(text) for connection in connections]
    return await loops(asked, lambda worker: prepared[worker].fetch(argument))


async def _drain(asked):
    connections = await _connections(asked)
    left = asked.jobs
    started = time.perf_counter()

    done = 0

    async def one(connection):
        nonlocal left, done
        claim = await connection.prepare("SELECT execution_id, lease_token, payload FROM sched.claim('default', 1)")
        finish = await connection.prepare("SELECT sched.finish_success($1, $2)")
        while left > 0 and (rows := await claim.fetch()):
            left -= 1
            await finish.fetch(rows[0][0], rows[0][1])
            done += 1

    # As docs/guides/batches.md recommends: a batch is ended in the statement that claims the next.
    async def batches(connection):
        nonlocal left, done
        finish = await connection.prepare(FINISH)
        following = await connection.prepare(NEXT)
        held = []
        while True:
            ended = [row[1] for row in held], [row[2] for row in held]
            rows = await (following.fetch(*ended, asked.batch) if left > 0 else finish.fetch(*ended))
            done += len(held) - len(rows[0][0] or ())
            held = [row for row in rows if len(row) > 1 and row[1]]
            left -= len(held)
            if not held:
                return

    loop = one if asked.batch == 1 else batches
    await asyncio.gather(*(loop(connection) for connection in connections))
    return {"jobs": done, "seconds": time.perf_counter() - started}
