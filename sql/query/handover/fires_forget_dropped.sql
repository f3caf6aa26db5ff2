-- Those of schedules that somebody has dropped.
DELETE FROM sched.reported_fire f WHERE NOT EXISTS (SELECT FROM sched.schedule s WHERE s.schedule_id = f.schedule_id)
