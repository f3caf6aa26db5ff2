-- The same columns as execution_by_key, by id. $1 execution_id, $2 now
SELECT e.id, e.status, e.attempt, e.max_attempts, e.allow_stale_reentry, e.next_retry_at IS NOT NULL AS is_retryable,
       e.next_retry_at <= $2 AS is_retry_due, l.execution_id IS NOT NULL AS is_leased, l.attempt AS lease_attempt,
       l.stale_after <= $2 AS is_stale,
       e.owner::oid AS owner, e.queue, e.priority, e.next_retry_at, l.cancel_requested, l.lease_token
  FROM sched.ledger e
  LEFT JOIN sched.lease l ON l.execution_id = e.id
 WHERE e.id = $1
