-- Deliveries that are ready and neither paused for all nor for their owner, locked, with their job's kind (NULL = dropped) and what decides what becomes of one that fails: by
-- priority, then plan time, over all queues of an owner, the owners in turns. From one queue to the next by the index: what a paused one has costs nothing.
-- (Of the payload only the size is read.) $1 what the names of their queues begin with, $2 what comes after all of these, $3 limit
WITH RECURSIVE queues AS (
    (SELECT r.queue FROM sched.ready r WHERE r.queue >= $1 AND r.queue < $2 AND starts_with(r.queue, $1) ORDER BY r.queue LIMIT 1)
    UNION ALL
    SELECT n.queue
      FROM queues q
     CROSS JOIN LATERAL (
           SELECT r.queue FROM sched.ready r WHERE r.queue > q.queue AND r.queue < $2 AND starts_with(r.queue, $1) ORDER BY r.queue LIMIT 1) AS n
), first AS MATERIALIZED (
    SELECT r.queue, r.priority, r.plan_time, r.execution_id,
           row_number() OVER (PARTITION BY substr(q.queue, 62, 10) ORDER BY r.priority DESC, r.plan_time, r.execution_id) AS turn
      FROM queues q
     CROSS JOIN LATERAL (
           SELECT r.queue, r.priority, r.plan_time, r.execution_id
             FROM sched.ready r
            WHERE r.queue = q.queue
            ORDER BY r.queue, r.priority DESC, r.plan_time, r.execution_id
            LIMIT $3) AS r
     WHERE NOT EXISTS (SELECT
                        FROM sched.paused_queue p
                       WHERE p.queue = substr(q.queue, 73) AND (p.owner IS NULL OR p.owner = substr(q.queue, 62, 10)::bigint::oid))
     ORDER BY turn, r.priority DESC, r.plan_time, r.execution_id
     LIMIT $3
), picked AS MATERIALIZED (
    SELECT r.execution_id
      FROM first f
      JOIN sched.ready r ON r.queue = f.queue AND r.priority = f.priority AND r.plan_time = f.plan_time AND r.execution_id = f.execution_id
     WHERE (SELECT c.execution_id FROM sched.cancel_request c WHERE c.execution_id = r.execution_id LIMIT 1) IS NULL
       FOR UPDATE OF r SKIP LOCKED
)
SELECT p.execution_id, e.attempt + 1 AS attempt, e.max_attempts, e.allow_stale_reentry, j.retry_backoff, false AS cancel_requested, e.job_name, j.kind, e.payload
  FROM picked p
  JOIN sched.ledger e ON e.id = p.execution_id
  LEFT JOIN sched.job j ON j.job_name = e.job_name
