import pytest
from django.db.models.signals import pre_migrate
from project.testing import test_mode

pytest_plugins = ["pg_scheduler.testing.plugin"]

@pytest.fixture(scope="session")
def django_db_modify_db_settings(django_db_modify_db_settings) -> None:
    pre_migrate.connect(test_mode)
