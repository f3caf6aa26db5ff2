-- The stored plans of a scope that the caller can claim now, oldest first; not those of others, which a claim would refuse.
-- $1 key, $2 from, $3 to (both inclusive), $4 now, $5 limit, $6 caller
SELECT e.plan_time
  FROM sched.ledger e
  LEFT JOIN sched.lease l ON l.execution_id = e.id
 WHERE e.key = $1 AND e.plan_time BETWEEN $2 AND $3 AND pg_has_role($6, e.owner, 'USAGE')
   AND CASE WHEN l.execution_id IS NOT NULL
            THEN l.stale_after <= $4 AND e.allow_stale_reentry AND NOT l.cancel_requested AND l.attempt < e.max_attempts
            ELSE (e.status = 'PENDING' AND (e.next_retry_at > $4) IS NOT TRUE)
                 OR (e.status = 'FAILED' AND e.next_retry_at <= $4 AND e.attempt < e.max_attempts) END
 ORDER BY e.plan_time
 LIMIT $5
