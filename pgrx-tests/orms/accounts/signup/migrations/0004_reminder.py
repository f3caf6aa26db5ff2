from django.db import migrations

class Migration(migrations.Migration):
    dependencies = [("signup", "0003_schedules")]
    operations = [
        migrations.RunSQL(
            "SELECT sched.define_job('reminder'), sched.create_schedule('mondays', '0 8 * * mon', 'reminder')",
            "SELECT sched.drop_schedule('mondays'), sched.drop_job('reminder')",
        ),
    ]
