SELECT 1 FROM sched.schedule_change LIMIT 1
