-- $1 schedule_id, $2 from, $3 to
SELECT fired_at FROM sched.reported_fire WHERE schedule_id = $1 AND fired_at >= $2 AND fired_at < $3 ORDER BY fired_at
