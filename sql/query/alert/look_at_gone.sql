-- Has dispatchers look at schedules that are gone and have an open alert: a dump was taken between a drop and the look that resolves.
INSERT INTO sched.alert_watch (due_at, schedule_id)
SELECT DISTINCT timestamptz '-infinity', a.schedule_id
  FROM sched.alert a
 WHERE a.resolved_at IS NULL AND NOT EXISTS (SELECT FROM sched.schedule s WHERE s.schedule_id = a.schedule_id)
