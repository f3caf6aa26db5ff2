from django.db import migrations, models


class Migration(migrations.Migration):
    dependencies = [("signup", "0001_scheduler")]
    operations = [
        migrations.CreateModel(
            "Account",
            [
                ("id", models.BigAutoField(auto_created=True, primary_key=True, serialize=False, verbose_name="ID")),
                ("email", models.EmailField(max_length=254, unique=True)),
                ("welcomed_at", models.DateTimeField(null=True)),
            ],
        ),
    ]
