-- A fire that failed is tried again later. $1 schedule_id, $2 error, $3 when to try again
UPDATE sched.timer
   SET error_count = least(error_count, 2147483646) + 1, last_error = $2, fire_at = $3
 WHERE schedule_id = $1 AND next_plan_time IS NOT NULL
