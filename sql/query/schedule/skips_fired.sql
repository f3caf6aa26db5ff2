-- Which of these plan times the ledger holds, in the scope that the schedule has or had, its own executions first; and whether none is fired
-- there any more. $1 schedule_id, $2 plan times
SELECT DISTINCT ON (e.plan_time) e.plan_time, e.id, o.own, o.own OR e.key = s.key AS here
  FROM sched.schedule s
 CROSS JOIN LATERAL (SELECT s.key UNION ALL SELECT unnest(s.previous_keys)) AS k (key)
 CROSS JOIN unnest($2) AS p (plan_time)
  JOIN sched.ledger e ON e.key = k.key AND e.plan_time = p.plan_time
 CROSS JOIN LATERAL (SELECT e.schedule_id IS NOT DISTINCT FROM s.schedule_id AND e.origin IN ('schedule', 'backfill') AS own) AS o
 WHERE s.schedule_id = $1
 ORDER BY e.plan_time, o.own DESC, e.key = s.key DESC
