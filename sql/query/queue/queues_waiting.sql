-- The queues of users in which something waits. From one queue to the next by the index: the cost is that of the queues.
-- $1 how many bytes their names have at most
WITH RECURSIVE queues AS (
    (SELECT r.queue FROM sched.ready r ORDER BY r.queue, r.priority DESC, r.plan_time, r.execution_id LIMIT 1)
    UNION ALL
    SELECT n.queue
      FROM queues q
     CROSS JOIN LATERAL (
           SELECT r.queue
             FROM sched.ready r
            WHERE r.queue > q.queue
            ORDER BY r.queue, r.priority DESC, r.plan_time, r.execution_id
            LIMIT 1) AS n
)
SELECT q.queue FROM queues q WHERE octet_length(q.queue) <= $1
