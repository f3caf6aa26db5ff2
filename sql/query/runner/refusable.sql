-- Executions that nobody can run as their owner, locked, with what decides what becomes of them. $1 queue, $2 limit
WITH picked AS MATERIALIZED (
    SELECT r.execution_id
      FROM sched.ready r
     WHERE r.queue = $1
     ORDER BY r.priority DESC, r.plan_time, r.execution_id
     LIMIT $2
       FOR UPDATE SKIP LOCKED
)
SELECT p.execution_id, e.attempt + 1 AS attempt, e.max_attempts, e.allow_stale_reentry, j.retry_backoff, false AS cancel_requested
  FROM picked p
  JOIN sched.ledger e ON e.id = p.execution_id
  LEFT JOIN sched.job j ON j.job_name = e.job_name
