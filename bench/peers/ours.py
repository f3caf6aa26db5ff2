"""Our own functions from asyncpg, the driver that is the fastest for Python: so that no library is compared with pgbench."""

import asyncio
import time

import asyncpg
import uvloop

from peers import Asked, loops


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

    async def loop(connection):
        nonlocal left
        claim = await connection.prepare("SELECT execution_id, lease_token, payload FROM sched.claim('default', $1)")
        one = await connection.prepare("SELECT sched.finish_success($1, $2)")
        many = await connection.prepare("SELECT sched.finish_success_many($1, $2)")
        while left > 0 and (rows := await claim.fetch(asked.batch)):
            left -= len(rows)
            if asked.batch == 1:
                await one.fetch(rows[0][0], rows[0][1])
            else:
                await many.fetch([row[0] for row in rows], [row[1] for row in rows])

    await asyncio.gather(*(loop(connection) for connection in connections))
    return {"jobs": asked.jobs - left, "seconds": time.perf_counter() - started}
