-- Schedules that cannot be fired any more until somebody changes them. $1 schedule_ids, $2 reasons
WITH remembered AS (
    INSERT INTO sched.timer_state (schedule_id, parked)
    SELECT d.schedule_id, true FROM unnest($1, $2) AS d (schedule_id, reason)
        ON CONFLICT (schedule_id) DO UPDATE SET parked = true
)
UPDATE sched.timer t
   SET next_plan_time = NULL, fire_at = NULL, parked = true, last_error = d.reason, error_count = least(t.error_count, 2147483646) + 1
  FROM unnest($1, $2) AS d (schedule_id, reason)
 WHERE t.schedule_id = d.schedule_id
