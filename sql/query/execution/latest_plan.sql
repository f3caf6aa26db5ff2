-- The newest plan of a scope that the caller may see. $1 key, $2 now, $3 caller
SELECT e.plan_time,
       CASE WHEN l.execution_id IS NULL THEN e.status ELSE 'RUNNING' END AS status,
       COALESCE(l.attempt, e.attempt) AS attempt,
       e.max_attempts,
       CASE WHEN l.execution_id IS NULL AND e.status = 'FAILED' THEN e.next_retry_at END AS next_retry_at,
       COALESCE(l.attempt, e.attempt) < e.max_attempts
           AND CASE WHEN l.execution_id IS NULL THEN e.status = 'FAILED' AND e.next_retry_at <= $2
                    ELSE l.stale_after <= $2 AND e.allow_stale_reentry AND NOT l.cancel_requested END IS TRUE AS retry_eligible
  FROM sched.ledger e
  LEFT JOIN sched.lease l ON l.execution_id = e.id
 WHERE e.key = $1 AND pg_has_role($3, e.owner, 'USAGE')
 ORDER BY e.plan_time DESC
 LIMIT 1
