-- The queues of runners in which something waits, and how much. From one queue to the next by the index: the cost is that of the queues.
-- $1 what their names begin with, $2 the least such name, $3 the greatest, $4 how many to count at most in each
WITH RECURSIVE queues AS (
    (SELECT r.queue FROM sched.ready r WHERE r.queue >= $2 AND r.queue <= $3 AND starts_with(r.queue, $1) ORDER BY r.queue LIMIT 1)
    UNION ALL
    SELECT n.queue
      FROM queues q
     CROSS JOIN LATERAL (
           SELECT r.queue
             FROM sched.ready r
            WHERE r.queue > q.queue AND r.queue <= $3 AND starts_with(r.queue, $1)
            ORDER BY r.queue
            LIMIT 1) AS n
)
SELECT q.queue, (SELECT count(*) FROM (SELECT FROM sched.ready r WHERE r.queue = q.queue LIMIT $4) AS c) AS waiting
  FROM queues q
