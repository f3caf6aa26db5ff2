"""A Django project of the usual kind, in the database that the PG* variables name."""

import os

SECRET_KEY = "of a test"
USE_TZ = True
TIME_ZONE = "Europe/Berlin"
INSTALLED_APPS = ["django.contrib.contenttypes", "django.contrib.auth", "signup"]
ROOT_URLCONF = "project.urls"
DEFAULT_AUTO_FIELD = "django.db.models.BigAutoField"
DATABASES = {
    "default": {
        "ENGINE": "django.db.backends.postgresql",
        "NAME": os.environ["PGDATABASE"],
        "USER": os.environ["PGUSER"],
        "HOST": os.environ["PGHOST"],
        "PORT": os.environ["PGPORT"],
        # Where a superuser has made a template with the extension, no other role needs to be one.
        "TEST": {"TEMPLATE": os.environ.get("TEST_TEMPLATE")},
    }
}
TEST_RUNNER = "project.testing.Runner"
