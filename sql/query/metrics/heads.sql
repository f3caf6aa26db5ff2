-- The first entries of each queue, as far as a role may know of them: how many were looked at, how many of these are its, and since when the first
-- of its can be claimed. From one queue to the next by the index. (health/queues.sql asks for the first of each, whoever owns it.)
-- $1 how many queues at most, $2 how many entries of each, $3 role, $4 whether it reads everything
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
SELECT q.queue, f.seen, f.own, greatest(e.created_at, e.run_at, e.next_retry_at) AS since
  FROM queues q
 CROSS JOIN LATERAL (
       SELECT count(*) AS seen, count(*) FILTER (WHERE r.may) AS own, (array_agg(r.execution_id) FILTER (WHERE r.may))[1] AS first
         FROM (SELECT r.execution_id, $4 OR pg_has_role($3, r.owner, 'USAGE') AS may
                 FROM sched.ready r
                WHERE r.queue = q.queue
                ORDER BY r.queue, r.priority DESC, r.plan_time, r.execution_id
                LIMIT $2) AS r) AS f
  LEFT JOIN sched.ledger e ON e.id = f.first
 WHERE f.own > 0
