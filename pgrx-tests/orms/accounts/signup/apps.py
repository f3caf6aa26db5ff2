from django.apps import AppConfig


class SignupConfig(AppConfig):
    name = "signup"

    def ready(self) -> None:
        from . import jobs  # noqa: F401
