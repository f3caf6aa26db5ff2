DELETE FROM sched.timer t WHERE NOT EXISTS (SELECT FROM sched.schedule s WHERE s.schedule_id = t.schedule_id)
