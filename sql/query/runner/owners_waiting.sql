-- The queues of runners in which something waits and that are not paused, and how much, by what would be claimed first. From one queue to the
-- next by the index: the cost is that of the queues. $1 what their names begin with, $2 a lower bound of such names, $3 an upper one, $4 how
-- many to count at most in each
WITH RECURSIVE queues AS (
    (SELECT r.queue, r.priority, r.plan_time, r.execution_id
       FROM sched.ready r
      WHERE r.queue >= $2 AND r.queue <= $3 AND starts_with(r.queue, $1)
      ORDER BY r.queue, r.priority DESC, r.plan_time, r.execution_id
      LIMIT 1)
    UNION ALL
    SELECT n.queue, n.priority, n.plan_time, n.execution_id
      FROM queues q
     CROSS JOIN LATERAL (
           SELECT r.queue, r.priority, r.plan_time, r.execution_id
             FROM sched.ready r
            WHERE r.queue > q.queue AND r.queue <= $3 AND starts_with(r.queue, $1)
            ORDER BY r.queue, r.priority DESC, r.plan_time, r.execution_id
            LIMIT 1) AS n
)
SELECT q.queue, (SELECT count(*) FROM (SELECT FROM sched.ready r WHERE r.queue = q.queue LIMIT $4) AS c) AS waiting
  FROM queues q
 WHERE NOT EXISTS (SELECT FROM sched.paused_queue p WHERE p.queue = substr(q.queue, 73) AND (p.owner IS NULL OR p.owner = substr(q.queue, 62, 10)::bigint::oid))
 ORDER BY q.priority DESC, q.plan_time, q.execution_id
