"""A Django project with Celery, as Celery's own guide lays it out: nothing here calls django.setup()."""

from .celery import app as celery_app

__all__ = ("celery_app",)
