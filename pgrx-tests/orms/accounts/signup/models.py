from django.db import models


class Account(models.Model):
    email = models.EmailField(unique=True)
    welcomed_at = models.DateTimeField(null=True)
