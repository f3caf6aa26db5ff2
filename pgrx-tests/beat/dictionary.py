"""Schedules that stand in a configuration, of the kinds that projects have (BEAT_SCHEDULE)."""

from datetime import datetime, timedelta, timezone

from celery.beat import BeatLazyFunc
from celery.schedules import crontab, schedule, solar


class Weekdays(schedule):
    """A schedule with a rule of its own."""


ENTRIES = {
    "nightly": {"task": "shop.greet", "schedule": crontab(minute=0, hour=3), "args": ("nightly",)},
    "lists": {"task": "shop.greet", "schedule": crontab(minute=[0, 30], hour="9-17", day_of_week={1, 5}), "args": ["lists"]},
    "each half minute": {"task": "shop.greet", "schedule": 30.0, "args": ["you"], "options": {"queue": "reports", "expires": 15.0}},
    "hourly": {"task": "shop.tasks.report", "schedule": timedelta(hours=1), "kwargs": {"day": datetime(2026, 11, 28, tzinfo=timezone.utc)}},
    "half a second": {"task": "shop.greet", "schedule": timedelta(milliseconds=500), "args": ["you"]},
    "sunset": {"task": "shop.greet", "schedule": solar("sunset", 52.5, 13.4), "args": ["you"]},
    "own rule": {"task": "shop.greet", "schedule": Weekdays(timedelta(days=1)), "args": ["you"]},
    "relative": {"task": "shop.greet", "schedule": timedelta(hours=1), "relative": True, "args": ["you"]},
    "countdown": {"task": "shop.greet", "schedule": crontab(), "args": ["you"], "options": {"countdown": 10}},
    "lazy": {"task": "shop.greet", "schedule": crontab(), "args": [BeatLazyFunc(lambda: "you")]},
    "no json": {"task": "shop.greet", "schedule": crontab(), "args": [object()]},
}
