-- Dropped schedules that are to be looked at. $1 now, $2 limit
SELECT d.schedule_id FROM sched.schedule_dropped d WHERE d.retry_at <= $1 ORDER BY d.retry_at LIMIT $2
