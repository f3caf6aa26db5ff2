-- Schedules whose plan somebody is just claiming come again later. $1 schedule_ids, $2 when
UPDATE sched.timer t
   SET fire_at = $2
 WHERE t.schedule_id = ANY ($1)
