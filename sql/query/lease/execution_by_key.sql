-- What is known of the execution of this key. $1 key, $2 plan_time, $3 now
SELECT e.id, e.status, e.attempt, e.max_attempts, e.allow_stale_reentry, e.next_retry_at IS NOT NULL,
       e.next_retry_at <= $3, l.execution_id IS NOT NULL, l.attempt, l.stale_after <= $3,
       e.owner::oid, e.queue, e.priority, e.next_retry_at, l.cancel_requested, l.lease_token
  FROM sched.ledger e
  LEFT JOIN sched.lease l ON l.execution_id = e.id
 WHERE e.key = $1 AND e.plan_time = $2
