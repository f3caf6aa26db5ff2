-- The oldest timer that is due and that no dispatcher has fired, how many are due, and the first schedules with a change that no dispatcher
-- has applied: their timers are not what they are to be. A timer of another version than its schedule is one of those.
-- $1 now, $2 how many to count at most, $3 how many changed schedules at most, $4 no timer fires up to this time, $5 no change has an id up to this one
WITH due AS MATERIALIZED (
    SELECT t.fire_at
      FROM sched.timer t
      JOIN sched.schedule s ON s.schedule_id = t.schedule_id AND s.version = t.version
     WHERE t.fire_at > $4 AND t.fire_at <= $1
     ORDER BY t.fire_at
     LIMIT $2
)
SELECT (SELECT min(d.fire_at) FROM due d) AS oldest, (SELECT count(*) FROM due) AS due,
       ARRAY(SELECT DISTINCT c.schedule_id
               FROM (SELECT c.schedule_id FROM sched.schedule_change c WHERE c.change_id > $5 AND c.retry_at IS NULL ORDER BY c.change_id LIMIT $3) AS c) AS changed
