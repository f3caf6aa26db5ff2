"""Pretends to be the API of a payment provider: it takes its time, and knows a payment by its key."""

import asyncio
from typing import Annotated

from fastapi import APIRouter, Header
from pydantic import BaseModel

router = APIRouter()


class Payment(BaseModel):
    seconds: float = 0.1


@router.post("/payments")
async def pay(payment: Payment, idempotency_key: Annotated[str, Header()]) -> dict[str, str]:
    await asyncio.sleep(payment.seconds)
    return {"receipt": f"receipt of {idempotency_key}"}
