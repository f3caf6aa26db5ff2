#!/usr/bin/env python3
"""Writes the schedules of a configuration (`beat_schedule`, `add_periodic_task`) into the tables of django-celery-beat. It sends nothing.

sched.import_from('celery_beat') reads them there. The application is loaded as `celery beat` loads it. In a Django project its settings say
where the tables are, and `django_celery_beat` is one of its apps. Without Django the tables are made in the database that the PG* variables name.

An entry is written by ModelEntry.from_entry of django-celery-beat, or refused where its row would not say all of it. The exit status is 1 where
one was refused.
"""

from __future__ import annotations

import argparse
import os
import sys
from typing import Any, Mapping

import django
from celery import Celery
from celery.app.utils import find_app
from celery.beat import BeatLazyFunc
from celery.schedules import crontab, maybe_schedule, schedule, solar
from django.conf import settings
from django.core.management import call_command

# Options for which a row has a column; `expires` in seconds has one of another name.
OPTIONS = {"queue", "exchange", "routing_key", "priority", "headers", "expire_seconds", "expires"}


class Refused(Exception):
    """Why an entry is not written."""


def load(name: str) -> Celery:
    """The application as `celery beat` loads it."""
    app = find_app(name)
    app.loader.init_worker()
    app.finalize()
    return app


def set_up_django() -> None:
    """Where the project does without Django: the settings that its tables need, and the tables."""
    if os.environ.get("DJANGO_SETTINGS_MODULE"):
        return  # Celery's own fixup has set it up
    database = {"ENGINE": "django.db.backends.postgresql", "NAME": os.environ.get("PGDATABASE") or os.environ.get("PGUSER") or "postgres"}
    settings.configure(INSTALLED_APPS=["django_celery_beat"], DATABASES={"default": database}, USE_TZ=True)
    django.setup()
    call_command("migrate", verbosity=0)


def entries(app: Celery) -> dict[str, Mapping[str, Any]]:
    """What Beat would run: the configuration, and what Celery adds where results are to be deleted."""
    found = dict(app.conf.beat_schedule)
    if app.conf.result_expires and not app.backend.supports_autoexpire:
        cleanup = {"task": "celery.backend_cleanup", "schedule": crontab("0", "4", "*", app=app), "options": {"expires": 12 * 3600}}
        found.setdefault("celery.backend_cleanup", cleanup)
    return found


def field(value: Any) -> str:
    """A field of a crontab, which may have been given as a number or a list."""
    return str(value) if isinstance(value, (str, int)) else ",".join(map(str, sorted(value)))


def schedule_of(entry: Mapping[str, Any], app: Celery) -> Any:
    """An entry's schedule, if a row can say it."""
    from django_celery_beat.clockedschedule import clocked  # known once Django is set up

    given = maybe_schedule(entry["schedule"], entry.get("relative", False), app=app)
    if type(given) not in (crontab, schedule, solar, clocked):
        raise Refused(f"a schedule of the class {type(given).__qualname__} has no table")
    if isinstance(given, crontab):
        fields = ["minute", "hour", "day_of_week", "day_of_month", "month_of_year"]
        return crontab(*(field(getattr(given, f"_orig_{name}")) for name in fields), app=app)
    if isinstance(given, schedule):
        if given.relative:
            raise Refused("relative intervals have no column")
        if given.run_every.total_seconds() < 1 or given.run_every.microseconds:
            raise Refused(f"an interval of {given.run_every.total_seconds()} seconds: a row has whole seconds")
    return given


def options_of(entry: Mapping[str, Any]) -> dict[str, Any]:
    """An entry's options, as a row says them."""
    options = dict(entry.get("options") or {})
    unknown = sorted(set(options) - OPTIONS)
    if unknown:
        raise Refused(f"no column for the option {', '.join(unknown)}: give it to the task itself")
    if "expires" in options:
        seconds = options.pop("expires")
        if not isinstance(seconds, (int, float)) or seconds != int(seconds):
            raise Refused(f"expires is no number of seconds: {seconds!r}")
        options["expire_seconds"] = int(seconds)
    return options


def write(name: str, entry: Mapping[str, Any], app: Celery) -> str:
    """Writes an entry, and returns what its schedule is now."""
    from django_celery_beat.schedulers import ModelEntry

    values = [*(entry.get("args") or ()), *(entry.get("kwargs") or {}).values()]
    if any(isinstance(value, BeatLazyFunc) for value in values):
        raise Refused("an argument is worked out anew for each run")
    rest = {key: value for key, value in entry.items() if key != "relative"}
    return str(ModelEntry.from_entry(name, app=app, **dict(rest, schedule=schedule_of(entry, app), options=options_of(entry))).model.scheduler)


def main() -> int:
    options = argparse.ArgumentParser(description="writes a Celery application's beat_schedule into the tables of django-celery-beat")
    options.add_argument("--app", required=True, help="the Celery application, as `celery --app` has it")
    app = load(options.parse_args().app)
    set_up_django()
    refused = 0
    for name, entry in entries(app).items():
        try:
            print(f"written: {name}: {write(name, entry, app)}")
        except Exception as error:  # also what JSON or a column does not take
            refused += 1
            print(f"refused: {name}: {error}")
    return 1 if refused else 0


if __name__ == "__main__":
    sys.path.insert(0, "")  # an application in this folder
    sys.exit(main())
