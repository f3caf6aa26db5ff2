"""A Django project of nothing but Celery's tables, in the database that the PG* variables name."""

import os

SECRET_KEY = "of a test"
USE_TZ = True
TIME_ZONE = "UTC"
INSTALLED_APPS = ["django_celery_beat", "django_celery_results"]
DATABASES = {"default": {"ENGINE": "django.db.backends.postgresql", "NAME": os.environ["PGDATABASE"], "USER": os.environ["PGUSER"], "HOST": os.environ["PGHOST"], "PORT": os.environ["PGPORT"]}}
DEFAULT_AUTO_FIELD = "django.db.models.AutoField"

# A broker of files: it needs no server.
BROKER = os.path.join(os.environ["PGHOST"], "broker")
CELERY_BROKER_URL = "filesystem://"
CELERY_BROKER_TRANSPORT_OPTIONS = {"data_folder_in": BROKER, "data_folder_out": BROKER, "control_folder": os.path.join(BROKER, "control"), "polling_interval": 0.1}
CELERY_RESULT_BACKEND = "django-db"
CELERY_RESULT_EXTENDED = True
CELERY_TASK_TRACK_STARTED = True
CELERY_BEAT_SCHEDULER = "django_celery_beat.schedulers:DatabaseScheduler"
CELERY_RESULT_EXPIRES = None
