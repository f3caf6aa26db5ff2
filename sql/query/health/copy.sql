-- Whether a copy holds anything that would be acted on at home: schedules, or executions that wait or run.
SELECT EXISTS (SELECT FROM sched.schedule) OR EXISTS (SELECT FROM sched.ready) OR EXISTS (SELECT FROM sched.retry)
       OR EXISTS (SELECT FROM sched.lease) AS has_work
