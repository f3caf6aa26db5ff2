-- Of each scope what waits among its newest executions, the newest first; a thousand are looked at. $1 keys
SELECT k.key, w.id AS execution_id
  FROM unnest($1) AS k (key)
 CROSS JOIN LATERAL (
       SELECT n.id, n.plan_time
         FROM (SELECT e.id, e.plan_time, e.status, e.next_retry_at
                 FROM sched.ledger e
                WHERE e.key = k.key
                ORDER BY e.plan_time DESC
                LIMIT 1000) AS n
        WHERE (n.status = 'PENDING' OR (n.status = 'FAILED' AND n.next_retry_at IS NOT NULL))
          AND NOT EXISTS (SELECT FROM sched.lease l WHERE l.execution_id = n.id)) AS w
 ORDER BY k.key, w.plan_time DESC
