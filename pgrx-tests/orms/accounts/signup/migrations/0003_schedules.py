from django.db import migrations

# Two schedules are of a kind that a test would notice, if they fired by themselves. No model has the table, so no test empties it.
SCHEDULES = """
CREATE TABLE swept (at timestamptz NOT NULL);
SELECT sched.define_job('welcome', queue => 'mail'), sched.define_job('digest', queue => 'mail'), sched.define_job('pulse');
SELECT sched.create_schedule('morning digest', '0 9 * * *', 'digest', time_zone => 'UTC');
SELECT sched.create_schedule('pulse', 'every 1 second', 'pulse', ends_at => sched.now() + '1 minute');
SELECT sched.define_job('sweep', kind => 'sql', command => 'INSERT INTO swept VALUES (sched.now())');
SELECT sched.create_schedule('sweep', 'every 1 second', 'sweep', ends_at => sched.now() + '1 minute');
SELECT sched.schedule_sql('forget', '@daily', $$DELETE FROM swept WHERE at < sched.now() - interval '30 days'$$);
"""

NO_SCHEDULES = """
SELECT sched.unschedule('forget'), sched.drop_schedule('sweep'), sched.drop_schedule('pulse'), sched.drop_schedule('morning digest');
SELECT sched.drop_job('sweep'), sched.drop_job('pulse'), sched.drop_job('digest'), sched.drop_job('welcome');
DROP TABLE swept;
"""


class Migration(migrations.Migration):
    dependencies = [("signup", "0002_account")]
    operations = [migrations.RunSQL(SCHEDULES, NO_SCHEDULES)]
