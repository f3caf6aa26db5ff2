-- $1 schedule_id
SELECT s.schedule_name FROM sched.schedule s WHERE s.schedule_id = $1
