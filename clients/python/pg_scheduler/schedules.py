"""Schedules that an application declares: as a group of its own, by a function, at the start of a worker, or beside a handler."""

from __future__ import annotations

import difflib
from dataclasses import dataclass
from datetime import datetime, timedelta
from typing import Any, Awaitable, Callable, Iterable, Mapping, Optional, Sequence

from psycopg import AsyncConnection, AsyncCursor, Connection, Cursor
from psycopg.rows import tuple_row
from psycopg.types.json import Jsonb

from .functions import driver_connection, text
from .json_text import dumps, json_object
from .statements import Rows, Statement

#: What `@worker.job(…, schedule=…)` takes besides: the arguments of `sched.create_schedule`, but for both names, and those of a declaration. The
#: payload has another name, for `payload=` is the handler's.
_BESIDE_A_HANDLER = (
    "time_zone", "schedule_payload", "queue", "scope_kind", "scope_id", "catch_up", "catch_up_window", "max_plans_per_tick", "rearm", "overlap", "delay", "jitter",
    "starts_at", "ends_at", "ownership", "enabled", "max_lateness", "max_duration", "expect_success_within", "alert_job", "was", "adopt",
)


@dataclass(frozen=True)
class DeclaredSchedule:
    """What became of a schedule of the group."""

    schedule_name: str
    #: "created", "altered", "renamed", "dropped" or "unchanged".
    action: str
    #: What has changed, with the old and the new value; None: nothing.
    detail: Optional[str]


def declare_schedules(db: Connection[Any], group: str, specs: Iterable[Mapping[str, Any]], dry_run: bool = False, prune: bool = True) -> list[DeclaredSchedule]:
    """Has the group hold exactly these schedules; what became of each. `db`: a connection of psycopg, or Django's, in your transaction.

    A spec has the arguments of `sched.create_schedule`, or with `command` those of `sched.schedule_sql`, and may have `was` (the name before) and
    `adopt`. Lengths of time are texts ("5 min") or timedeltas, instants texts or datetimes with a time zone. dry_run: nothing is written.
    prune: schedules of the group that no spec names are dropped; with False they stay. Any number of instances may call it at once: the first
    changes what is to change, and the others wait for its commit.

    Raises TypeError for a spec that is no dict or holds what JSON has no word for, ValueError for a datetime without a time zone, psycopg.Error as
    the server does: 22023 names the element and the key, 42710 a schedule of another group or of none."""
    with Cursor(driver_connection(db), row_factory=tuple_row) as cursor:
        return results(cursor.execute(*declaration(group, specs, dry_run, prune)).fetchall())


async def adeclare_schedules(
    db: AsyncConnection[Any], group: str, specs: Iterable[Mapping[str, Any]], dry_run: bool = False, prune: bool = True
) -> list[DeclaredSchedule]:
    """`declare_schedules` on a connection of asyncio."""
    async with AsyncCursor(db, row_factory=tuple_row) as cursor:
        await cursor.execute(*declaration(group, specs, dry_run, prune))
        return results(await cursor.fetchall())


def declaration(group: str, specs: Iterable[Mapping[str, Any]], dry_run: bool, prune: bool) -> Statement:
    """Raises as `declare_schedules` does before it asks the server."""
    if isinstance(specs, (str, bytes, Mapping)):
        raise TypeError("specs are several schedules, each a dict")
    said = Jsonb([_spec(each) for each in specs], dumps)
    return Statement("SELECT schedule_name, action, detail FROM sched.declare_schedules(%s, %s, %s, %s)", (group, said, dry_run, prune))


def results(rows: Rows) -> list[DeclaredSchedule]:
    return [DeclaredSchedule(str(name), str(action), None if detail is None else str(detail)) for name, action, detail in rows]


class Declared:
    """What a worker declares at its start."""

    def __init__(self, group: Optional[str], specs: Optional[Iterable[Mapping[str, Any]]]) -> None:
        """Raises ValueError for schedules without a group, TypeError for what is no list of dicts."""
        self.group = group
        if specs is not None and group is None:
            raise ValueError('schedules= needs schedule_group=, the name of the group that has them')
        if isinstance(specs, (str, bytes, Mapping)):
            raise TypeError("schedules are several, each a dict")
        self._specs = [_spec(each) for each in specs or ()]
        #: Of jobs that are defined where they are not: where.
        self._queues: dict[str, Optional[str]] = {}

    def beside_handler(self, job_name: str, clock: Optional[str], options: Mapping[str, Any], queues: Mapping[str, int]) -> None:
        """A schedule that has its job's name, where there is a clock."""
        if clock is None:
            if options:
                raise TypeError(f'job "{job_name}": {", ".join(options)}: there is no such option without schedule=')
            return
        if self.group is None:
            raise ValueError(f'job "{job_name}": schedule= needs the worker\'s schedule_group=, the name of the group that has its schedules')
        if job_name == "*":
            raise ValueError('schedule= needs the name of one job, not "*"')
        if not isinstance(clock, str):
            raise TypeError(f'job "{job_name}": schedule is a clock, as "30 8 * * mon", not {clock!r:.100}')
        for name in options:
            if name not in _BESIDE_A_HANDLER:
                near = difflib.get_close_matches(name, _BESIDE_A_HANDLER, 1)
                meant = f'did you mean "{near[0]}"?' if near else f"there are {', '.join(_BESIDE_A_HANDLER)}"
                raise TypeError(f'job "{job_name}": there is no option "{name}": {meant}')
        given = dict(options)
        queue = given.pop("queue", None)
        if queue is None and len(queues) > 1:
            raise ValueError(f'job "{job_name}": the worker has several queues: name the one of this job by queue=')
        if "schedule_payload" in given:
            given["payload"] = given.pop("schedule_payload")
        self._specs.append(_spec({"schedule_name": job_name, "job_name": job_name, "clock": clock, **given}))
        self._queues[job_name] = queue

    async def declare(self, ask: Callable[[Statement], Awaitable[Rows]], queues: Sequence[str]) -> Sequence[DeclaredSchedule]:
        """In an open transaction: defines the jobs that are not, and declares. Raises ValueError where there is no group."""
        if self.group is None:
            raise ValueError("the worker has no schedule_group=, the name of the group that has its schedules")
        jobs = list(self._queues)
        if jobs and await ask(_undefined(jobs)):
            await ask(declaration(self.group, [], False, False))  # waits for other declarations of the group, which may define the same
            for [job_name] in await ask(_undefined(jobs)):
                await ask(_define(str(job_name), self._queues[str(job_name)] or queues[0]))
        return results(await ask(declaration(self.group, self._specs, False, True)))


def _undefined(job_names: list[str]) -> Statement:
    """Those of these jobs that are not defined."""
    return Statement("SELECT name FROM unnest(%s::text[]) AS wanted (name) WHERE NOT EXISTS (SELECT FROM sched.jobs AS job WHERE job.job_name = wanted.name)", (job_names,))


def _define(job_name: str, queue: str) -> Statement:
    return Statement("SELECT sched.define_job(%s, queue => %s)::text", (job_name, queue))


def _spec(spec: Mapping[str, Any]) -> dict[str, Any]:
    """As JSON has it."""
    if not isinstance(spec, Mapping):
        raise TypeError(f"a schedule is a dict, not {type(spec).__name__}: {spec!r:.100}")
    return {name: _value(name, value) for name, value in spec.items()}


def _value(name: str, value: Any) -> Any:
    if name == "payload":
        return json_object(value)
    if name in ("scope_kind", "scope_id"):
        return text(value)
    if isinstance(value, timedelta):
        return f"{value.days} days {value.seconds} seconds {value.microseconds} microseconds"
    if isinstance(value, datetime):
        if value.tzinfo is None:
            raise ValueError(f"{name}: {value!r} has no time zone")
        return value.isoformat()
    if isinstance(value, (list, tuple)):
        return [_value("", each) for each in value]
    return value
