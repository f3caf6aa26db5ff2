"""Imported by a test (CELERY_IMPORTS): the project writes down what is sent, as the manual of django-celery-results has it."""

from celery.signals import before_task_publish
from django_celery_results.models import TaskResult


@before_task_publish.connect
def pending(sender=None, headers=None, **_):
    TaskResult.objects.store_result("application/json", "utf-8", headers["id"], None, "PENDING", task_name=sender)
