-- $1 schedule_name
SELECT 1 FROM sched.schedule s WHERE s.schedule_name = $1
