"""A Celery application without Django, with its schedules in its configuration: `celery -A plain beat`."""

import os
from pathlib import Path

from celery import Celery
from celery.schedules import crontab

BROKER = Path(os.environ["PGHOST"], "broker")
(BROKER / "control").mkdir(parents=True, exist_ok=True)

app = Celery("plain", broker="filesystem://")
app.conf.broker_transport_options = {"data_folder_in": str(BROKER), "data_folder_out": str(BROKER), "control_folder": str(BROKER / "control")}
app.conf.timezone = "Europe/Berlin"
app.conf.beat_schedule = {"mail": {"task": "plain.mail", "schedule": crontab(hour="7", minute="30"), "args": ("you",)}}


@app.on_after_finalize.connect
def more(sender, **_):
    sender.add_periodic_task(60.0, mail.s("me"), name="each minute", queue="mails")


@app.task
def mail(name):
    return name
