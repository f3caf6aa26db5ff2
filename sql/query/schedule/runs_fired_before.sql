-- Which of these runs the ledger holds as their schedule's own, in a scope that it had before an edit. What others put there is theirs: that
-- scope is no longer the schedule's. $1 schedule_ids, $2 plan times
SELECT r.schedule_id, r.plan_time
  FROM unnest($1, $2) AS r (schedule_id, plan_time)
  JOIN sched.schedule s ON s.schedule_id = r.schedule_id
 CROSS JOIN LATERAL unnest(s.previous_keys) AS k (key)
  JOIN sched.ledger e ON e.key = k.key AND e.plan_time = r.plan_time
 WHERE e.schedule_id = r.schedule_id AND e.origin IN ('schedule', 'backfill')
