-- Which of these plan times the ledger holds, in the scope that the schedule has or had, its own executions first.
-- $1 schedule_id, $2 plan times
SELECT DISTINCT ON (e.plan_time) e.plan_time, e.id
  FROM sched.schedule s
 CROSS JOIN LATERAL (SELECT s.key UNION ALL SELECT unnest(s.former_keys)) AS k (key)
 CROSS JOIN unnest($2) AS p (plan_time)
  JOIN sched.ledger e ON e.key = k.key AND e.plan_time = p.plan_time
 WHERE s.schedule_id = $1
 ORDER BY e.plan_time, e.schedule_id = $1 DESC NULLS LAST
