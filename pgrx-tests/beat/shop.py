"""A Celery application: `celery -A shop worker`, `celery -A shop beat`."""

import os

os.environ.setdefault("DJANGO_SETTINGS_MODULE", "settings")

import django
from celery import Celery
from django.conf import settings

django.setup()
os.makedirs(os.path.join(settings.BROKER, "control"), exist_ok=True)
app = Celery("shop")
app.config_from_object("django.conf:settings", namespace="CELERY")


@app.task(name="shop.greet")
def greet(name, *, loudly=False):
    return f"HELLO {name}" if loudly else f"hello {name}"
