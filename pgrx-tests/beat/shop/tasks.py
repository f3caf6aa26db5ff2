"""Tasks as an app of a project has them."""

from celery import shared_task


@shared_task(name="shop.greet")
def greet(name: str, *, loudly: bool = False) -> str:
    return f"HELLO {name}" if loudly else f"hello {name}"


@shared_task(queue="reports")
def report(day: str = "today") -> str:
    return f"report of {day}"
