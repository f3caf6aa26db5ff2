-- $1 schedule_id to go on after, $2 limit
SELECT s.schedule_id FROM sched.schedule s WHERE s.schedule_id > $1 ORDER BY s.schedule_id LIMIT $2
