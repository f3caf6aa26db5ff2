-- $1 schedule_ids, $2 last plan times, $3 last fires
UPDATE sched.timer t
   SET last_plan_time = d.last_plan_time, last_fired_at = d.last_fired_at
  FROM unnest($1, $2, $3) AS d (schedule_id, last_plan_time, last_fired_at)
 WHERE t.schedule_id = d.schedule_id AND t.last_plan_time IS NULL AND d.last_plan_time IS NOT NULL
