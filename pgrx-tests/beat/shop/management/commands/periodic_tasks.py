"""Periodic tasks as a project has them, made as its code makes them: through the models."""

import json
from datetime import datetime, timedelta, timezone
from zoneinfo import ZoneInfo

from django.core.management.base import BaseCommand
from django_celery_beat.models import ClockedSchedule, CrontabSchedule, IntervalSchedule, PeriodicTask, SolarSchedule


def crontab(minute="*", hour="*", day_of_month="*", month_of_year="*", day_of_week="*", zone="UTC"):
    fields = {"minute": minute, "hour": hour, "day_of_month": day_of_month, "month_of_year": month_of_year, "day_of_week": day_of_week}
    return {"crontab": CrontabSchedule.objects.create(timezone=ZoneInfo(zone), **fields)}


def interval(every, period):
    return {"interval": IntervalSchedule.objects.create(every=every, period=period)}


def add(name, schedule, **more):
    PeriodicTask.objects.create(name=name, task="shop.greet", args=json.dumps([name]), **schedule, **more)


class Command(BaseCommand):
    def handle(self, *args, **options):
        later = datetime(2038, 1, 1, 9, tzinfo=timezone.utc)
        add("nightly", crontab("0", "3", zone="Europe/Berlin"))
        add("office", crontab("*/15", "9-17", day_of_week="mon-fri", zone="America/New_York"), queue="reports", priority=3, kwargs='{"loudly": true}')
        add("friday 13th", crontab("0", "0", "13", day_of_week="fri"), headers='{"trace": 12345678901234567890}')
        add("poll", interval(1, "seconds"))
        add("hourly", interval(1, "hours"), enabled=False, expire_seconds=60)
        add("sunrise", {"solar": SolarSchedule.objects.create(event="sunrise", latitude=52.5, longitude=13.4)})
        add("once", {"clocked": ClockedSchedule.objects.create(clocked_time=later)}, one_off=True)
        add("half past two", crontab("30", "2", zone="Europe/Berlin"))
        add("until 2038", crontab("0", "9"), expires=later)
        add("from 2038", crontab("0", "9"), start_time=later)
        add("from half past", crontab("0", "9"), start_time=later + timedelta(minutes=30))
        add("microseconds", interval(1500, "microseconds"), enabled=False)
