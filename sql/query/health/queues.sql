-- The first entry of each queue, and since when it can be claimed. From one queue to the next by the index: the cost is that of the queues.
-- What is first is what the next claim takes. $1 how many queues at most
WITH RECURSIVE queues AS (
    (SELECT r.queue, 1 AS number FROM sched.ready r ORDER BY r.queue, r.priority DESC, r.plan_time, r.execution_id LIMIT 1)
    UNION ALL
    SELECT n.queue, q.number + 1
      FROM queues q
     CROSS JOIN LATERAL (
           SELECT r.queue
             FROM sched.ready r
            WHERE r.queue > q.queue
            ORDER BY r.queue, r.priority DESC, r.plan_time, r.execution_id
            LIMIT 1) AS n
     WHERE q.number < $1
)
SELECT q.queue, greatest(e.created_at, e.run_at, e.next_retry_at) AS since
  FROM queues q
 CROSS JOIN LATERAL (
       SELECT r.execution_id
         FROM sched.ready r
        WHERE r.queue = q.queue
        ORDER BY r.queue, r.priority DESC, r.plan_time, r.execution_id
        LIMIT 1) AS first
  JOIN sched.ledger e ON e.id = first.execution_id
 ORDER BY since
