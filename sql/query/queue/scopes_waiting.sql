-- Of each scope what waits of an owner among its newest executions, the newest first; a thousand are looked at. $1 keys, $2 owner
SELECT k.key, w.id AS execution_id
  FROM unnest($1) AS k (key)
 CROSS JOIN LATERAL (
       SELECT n.id, n.plan_time
         FROM (SELECT e.id, e.plan_time, e.status, e.next_retry_at, e.owner
                 FROM sched.ledger e
                WHERE e.key = k.key
                ORDER BY e.plan_time DESC
                LIMIT 1000) AS n
        WHERE (n.status = 'PENDING' OR (n.status = 'FAILED' AND n.next_retry_at IS NOT NULL))
          AND n.owner = $2
          AND NOT EXISTS (SELECT FROM sched.lease l WHERE l.execution_id = n.id)) AS w
 ORDER BY k.key, w.plan_time DESC
