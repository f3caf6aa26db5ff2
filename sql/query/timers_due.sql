-- The timers that are due and nobody else's, soonest first. $1 now, $2 limit
SELECT t.schedule_id
  FROM sched.timer t
 WHERE t.fire_at <= $1
 ORDER BY t.fire_at
 LIMIT $2
   FOR UPDATE SKIP LOCKED
