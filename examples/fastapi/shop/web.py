"""The web application: `python -m shop.web --port 8001`. An order and its background work are one transaction."""

import argparse
from contextlib import asynccontextmanager
from typing import Any, AsyncIterator
from uuid import UUID

import psycopg
import uvicorn
from fastapi import FastAPI, HTTPException, Request
from fastapi.responses import JSONResponse
from pg_scheduler import aenqueue
from psycopg import AsyncConnection
from pydantic import BaseModel

from . import payments, schedules
from .database import in_transaction


@asynccontextmanager
async def lifespan(app: FastAPI) -> AsyncIterator[None]:
    await in_transaction(schedules.declare)
    yield


app = FastAPI(lifespan=lifespan)
app.include_router(payments.router)


class Order(BaseModel):
    item: str
    seconds_to_reserve: float = 0.1
    seconds_to_pay: float = 0.1


@app.exception_handler(psycopg.OperationalError)
async def unavailable(request: Request, error: psycopg.OperationalError) -> JSONResponse:
    """The database is away. Whether the order was placed is unknown: the client sends it again."""
    return JSONResponse({"detail": "try again"}, status_code=503, headers={"Retry-After": "1"})


@app.put("/orders/{order_id}", status_code=202)
async def place(order_id: UUID, order: Order) -> dict[str, bool]:
    """Idempotent: the client draws the order's id, and sends the order until it has an answer."""

    async def work(db: AsyncConnection[Any]) -> bool:
        placed = await db.execute("INSERT INTO placed_order (id, item) VALUES (%s, %s) ON CONFLICT DO NOTHING", (order_id, order.item))
        if placed.rowcount == 0:
            return False
        await aenqueue(db, "shop reserve", {"order_id": str(order_id), "seconds": order.seconds_to_reserve}, scope_kind="order", scope_id=order_id)
        await aenqueue(db, "shop charge", {"order_id": str(order_id), "seconds": order.seconds_to_pay}, scope_kind="order", scope_id=order_id)
        return True

    return {"placed": await in_transaction(work)}


@app.get("/orders/{order_id}")
async def show(order_id: UUID) -> dict[str, bool]:
    async def work(db: AsyncConnection[Any]) -> Any:
        found = await db.execute(
            "SELECT EXISTS (SELECT FROM reservation WHERE order_id = id), EXISTS (SELECT FROM payment WHERE order_id = id) FROM placed_order WHERE id = %s",
            (order_id,))
        return await found.fetchone()

    found = await in_transaction(work)
    if found is None:
        raise HTTPException(404, "no such order")
    return {"reserved": found[0], "paid": found[1]}


if __name__ == "__main__":
    options = argparse.ArgumentParser()
    options.add_argument("--port", type=int, default=8000)
    uvicorn.run(app, port=options.parse_args().port, timeout_graceful_shutdown=5, log_level="warning")
