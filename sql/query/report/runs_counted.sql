-- How many executions a schedule has in each part of a range, by what became of them. $1 schedule_id, $2 from, $3 to, $4 how long a part is, in seconds
SELECT min(e.plan_time) AS first, max(e.plan_time) AS last, count(*) AS count, o.outcome
  FROM sched.schedule s
 CROSS JOIN LATERAL (SELECT s.key UNION ALL SELECT unnest(s.previous_keys)) AS k (key)
  JOIN sched.ledger e ON e.key = k.key AND e.plan_time >= $2 AND e.plan_time < $3
  LEFT JOIN sched.lease l ON l.execution_id = e.id
 CROSS JOIN LATERAL (
       SELECT CASE WHEN (e.status IN ('SUCCESS', 'PENDING') OR l.execution_id IS NOT NULL)
                        AND e.origin <> 'backfill' AND e.run_at IS NULL AND COALESCE(l.attempt, e.attempt) <= 1
                        AND COALESCE(l.started_at, e.started_at, sched.now()) - e.plan_time > s.max_lateness THEN 'late'
                   WHEN l.execution_id IS NOT NULL THEN 'running'
                   WHEN e.status = 'PENDING' OR e.next_retry_at IS NOT NULL THEN 'waiting'
                   WHEN e.status = 'SUCCESS' THEN 'ran'
                   WHEN e.status = 'FAILED' THEN 'failed'
                   ELSE 'skipped' END AS outcome) AS o
 WHERE s.schedule_id = $1
 GROUP BY floor(EXTRACT(epoch FROM e.plan_time - $2) / $4), o.outcome
 ORDER BY 1
