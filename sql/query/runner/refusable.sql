-- Executions that nobody can run as their owner, locked, with what decides what becomes of them. What is paused waits.
-- $1 what the names of the owner's queues begin with, $2 a lower bound of such names, $3 an upper one, $4 limit
WITH picked AS MATERIALIZED (
    SELECT r.execution_id
      FROM sched.ready r
     WHERE r.queue >= $2 AND r.queue <= $3 AND starts_with(r.queue, $1)
       AND NOT EXISTS (SELECT FROM sched.paused_queue p WHERE p.queue = substr(r.queue, 73) AND (p.owner IS NULL OR p.owner = r.owner))
     ORDER BY r.queue, r.priority DESC, r.plan_time, r.execution_id
     LIMIT $4
       FOR UPDATE SKIP LOCKED
)
SELECT p.execution_id, e.attempt + 1 AS attempt, e.max_attempts, e.allow_stale_reentry, j.retry_backoff, false AS cancel_requested
  FROM picked p
  JOIN sched.ledger e ON e.id = p.execution_id
  LEFT JOIN sched.job j ON j.job_name = e.job_name
