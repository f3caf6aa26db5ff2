-- The executions that a schedule put into the ledger by its clocks, whichever it had then: dispatched or made up for (fire_now asks no clock).
-- $1 schedule_id, $2 from, $3 to, $4 at most
SELECT DISTINCT ON (e.plan_time) e.plan_time, e.id
  FROM sched.schedule s
 CROSS JOIN LATERAL (SELECT s.key UNION ALL SELECT unnest(s.previous_keys)) AS k (key)
  JOIN sched.ledger e ON e.key = k.key AND e.plan_time >= $2 AND e.plan_time < $3
 WHERE s.schedule_id = $1 AND e.schedule_id = $1 AND e.origin IN ('schedule', 'backfill')
 ORDER BY e.plan_time, e.key = s.key DESC
 LIMIT $4
