-- Schedules whose jobs belong to roles that were dropped, and that nobody has parked, are looked at again: the look parks them.
-- $1 the dropped roles, $2 how many at most
INSERT INTO sched.schedule_change (schedule_id)
SELECT s.schedule_id
  FROM sched.job j
  JOIN sched.schedule s ON s.job_name = j.job_name
  JOIN sched.timer t ON t.schedule_id = s.schedule_id AND t.version = s.version
 WHERE j.owner::oid = ANY ($1) AND s.enabled AND s.ownership = 'owned' AND NOT t.parked
   AND NOT EXISTS (SELECT FROM sched.schedule_change c WHERE c.schedule_id = s.schedule_id)
 LIMIT $2
RETURNING change_id
