-- The stored plans of a scope that can be claimed now, oldest first. $1 key, $2 from, $3 to (both inclusive), $4 now, $5 limit
SELECT e.plan_time
  FROM sched.ledger e
  LEFT JOIN sched.lease l ON l.execution_id = e.id
 WHERE e.key = $1 AND e.plan_time BETWEEN $2 AND $3
   AND CASE WHEN l.execution_id IS NOT NULL
            THEN l.stale_after <= $4 AND e.allow_stale_reentry AND NOT l.cancel_requested AND l.attempt < e.max_attempts
            ELSE e.status = 'PENDING'
                 OR (e.status = 'FAILED' AND e.next_retry_at <= $4 AND e.attempt < e.max_attempts) END
 ORDER BY e.plan_time
 LIMIT $5
