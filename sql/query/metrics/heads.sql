-- The first entries of each queue, as far as a role may know of them: how many were looked at, how many of these are its, and the first of its.
-- Who reads everything also gets the first of each priority. From one queue to the next by the index. (health/queues.sql asks for the first of
-- each, whoever owns it.)
-- $1 how many queues at most, $2 how many entries of each, $3 role, $4 whether it reads everything, $5 how many priorities of each
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
), priorities AS (
    SELECT q.queue, f.priority, f.execution_id, 1 AS number
      FROM queues q
     CROSS JOIN LATERAL (
           SELECT r.priority, r.execution_id
             FROM sched.ready r
            WHERE r.queue = q.queue
            ORDER BY r.queue, r.priority DESC, r.plan_time, r.execution_id
            LIMIT 1) AS f
     WHERE $4
    UNION ALL
    SELECT p.queue, f.priority, f.execution_id, p.number + 1
      FROM priorities p
     CROSS JOIN LATERAL (
           SELECT r.priority, r.execution_id
             FROM sched.ready r
            WHERE r.queue = p.queue AND r.priority < p.priority
            ORDER BY r.queue, r.priority DESC, r.plan_time, r.execution_id
            LIMIT 1) AS f
     WHERE p.number < $5
), firsts AS (
    SELECT p.queue, array_agg(p.execution_id) AS ids FROM priorities p GROUP BY p.queue
)
SELECT q.queue, f.seen, f.own, COALESCE(p.ids, ARRAY[f.first]) AS firsts
  FROM queues q
 CROSS JOIN LATERAL (
       SELECT count(*) AS seen, count(*) FILTER (WHERE r.may) AS own, (array_agg(r.execution_id) FILTER (WHERE r.may))[1] AS first
         FROM (SELECT r.execution_id, $4 OR pg_has_role($3, r.owner, 'USAGE') AS may
                 FROM sched.ready r
                WHERE r.queue = q.queue
                ORDER BY r.queue, r.priority DESC, r.plan_time, r.execution_id
                LIMIT $2) AS r) AS f
  LEFT JOIN firsts p ON p.queue = q.queue
 WHERE f.own > 0
