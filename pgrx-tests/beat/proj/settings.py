"""A Django project of the usual kind, in the database that the PG* variables name."""

import os
from pathlib import Path

SECRET_KEY = "of a test"
USE_TZ = True
TIME_ZONE = "UTC"
INSTALLED_APPS = ["django.contrib.contenttypes", "django.contrib.auth", "django_celery_beat", "django_celery_results", "shop"]
DATABASES = {"default": {"ENGINE": "django.db.backends.postgresql", "NAME": os.environ["PGDATABASE"], "USER": os.environ["PGUSER"], "HOST": os.environ["PGHOST"], "PORT": os.environ["PGPORT"]}}
DEFAULT_AUTO_FIELD = "django.db.models.BigAutoField"

# A broker of files, which needs no server, unless a test has one.
CELERY_BROKER_URL = os.environ.get("BROKER_URL", "filesystem://")
if CELERY_BROKER_URL == "filesystem://":
    BROKER = Path(os.environ["PGHOST"], "broker")
    (BROKER / "control").mkdir(parents=True, exist_ok=True)
    CELERY_BROKER_TRANSPORT_OPTIONS = {"data_folder_in": str(BROKER), "data_folder_out": str(BROKER), "control_folder": str(BROKER / "control"), "polling_interval": 0.1}
CELERY_RESULT_BACKEND = "django-db"
CELERY_RESULT_EXTENDED = True
CELERY_TASK_TRACK_STARTED = True
CELERY_BEAT_SCHEDULER = "django_celery_beat.schedulers:DatabaseScheduler"
CELERY_RESULT_EXPIRES = None
# What a test wants besides.
CELERY_IMPORTS = os.environ.get("CELERY_IMPORTS", "").split()
if os.environ.get("BEAT_SCHEDULE"):
    from dictionary import ENTRIES as CELERY_BEAT_SCHEDULE
    CELERY_RESULT_EXPIRES = 86400
