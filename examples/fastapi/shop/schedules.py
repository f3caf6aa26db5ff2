"""The schedules of the application. Each process of the web application declares them when it starts: the first call applies what a release changes."""

import os
from typing import Any

from psycopg import AsyncConnection
from psycopg.types.json import Jsonb

SCHEDULES = [
    {"schedule_name": "shop report", "clock": os.environ.get("SHOP_REPORT_CLOCK", "@hourly"), "job_name": "shop report", "catch_up": "every_plan"},
    {"schedule_name": "shop tidy", "clock": "@daily", "command": "DELETE FROM sales_report WHERE plan_time < now() - interval '1 year'"},
]


async def declare(db: AsyncConnection[Any]) -> None:
    # the role's default is SERIALIZABLE, in which the calls that have waited for the first one would fail (40001)
    await db.execute("SET TRANSACTION ISOLATION LEVEL READ COMMITTED")
    await db.execute("SELECT sched.declare_schedules('shop', %s)", (Jsonb(SCHEDULES),))
