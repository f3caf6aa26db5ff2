-- Requests that are to be carried out now, locked; not those that another transaction has locked. Owners take turns, so that the requests of one keep
-- no others waiting: a skip scan finds the owners, and each has its first $2. $1 now, $2 limit
WITH RECURSIVE owners (owner) AS (
    (SELECT c.owner::oid FROM sched.cancel_request c ORDER BY c.owner::oid LIMIT 1)
    UNION ALL
    SELECT (SELECT c.owner::oid FROM sched.cancel_request c WHERE c.owner::oid > o.owner ORDER BY c.owner::oid LIMIT 1)
      FROM owners o
     WHERE o.owner IS NOT NULL
), first AS (
    SELECT f.request_id
      FROM owners o
     CROSS JOIN LATERAL (
           SELECT d.request_id, row_number() OVER (ORDER BY d.retry_at) AS turn
             FROM (SELECT c.request_id, c.retry_at
                     FROM sched.cancel_request c
                    WHERE c.owner::oid = o.owner AND c.retry_at <= $1
                    ORDER BY c.owner::oid, c.retry_at
                    LIMIT $2) AS d) AS f
     ORDER BY f.turn
     LIMIT $2
)
SELECT c.request_id, c.execution_id FROM sched.cancel_request c WHERE c.request_id = ANY (ARRAY(SELECT f.request_id FROM first f)) FOR UPDATE SKIP LOCKED
