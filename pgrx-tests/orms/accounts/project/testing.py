from django.db import connections
from django.db.models.signals import pre_migrate
from django.test.runner import DiscoverRunner

def test_mode(using, **_) -> None:
    with connections[using].cursor() as cursor:
        cursor.execute("CREATE EXTENSION IF NOT EXISTS scheduler")
        cursor.execute("SELECT sched.test_mode()")

class Runner(DiscoverRunner):
    def setup_databases(self, **options):
        pre_migrate.connect(test_mode)
        return super().setup_databases(**options)
