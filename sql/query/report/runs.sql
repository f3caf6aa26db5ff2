-- What became of executions, and when the last attempt of each began and ended; whether it began later than it may, or has not begun by now. $1 execution_ids
SELECT e.id, e.plan_time,
       CASE WHEN l.execution_id IS NOT NULL THEN 'RUNNING' WHEN e.next_retry_at IS NOT NULL AND e.status = 'FAILED' THEN 'PENDING' ELSE e.status END AS status,
       COALESCE(l.attempt, e.attempt) AS attempt, COALESCE(l.started_at, e.started_at) AS started_at,
       CASE WHEN l.execution_id IS NULL THEN e.finished_at END AS finished_at,
       CASE WHEN l.execution_id IS NOT NULL THEN 'RUNNING' ELSE e.status END AS attempt_status,
       (e.origin <> 'backfill' AND e.run_at IS NULL AND COALESCE(l.attempt, e.attempt) <= 1
        AND COALESCE(l.started_at, e.started_at, clock_timestamp()) - e.plan_time > s.max_lateness) IS TRUE AS is_late
  FROM sched.ledger e
  LEFT JOIN sched.lease l ON l.execution_id = e.id
  LEFT JOIN sched.schedule s ON s.schedule_id = e.schedule_id
 WHERE e.id = ANY ($1)
