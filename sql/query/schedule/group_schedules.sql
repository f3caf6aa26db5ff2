-- $1 group_name
SELECT s.schedule_name FROM sched.schedule s WHERE s.group_name = $1 ORDER BY s.schedule_name COLLATE "C"
