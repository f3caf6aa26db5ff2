-- What is known of the execution of this key; what a dropped schedule has left can only end. $1 key, $2 plan_time, $3 now
SELECT e.id, CASE WHEN k.dropped THEN 'CANCELLED' ELSE e.status END AS status, e.attempt, e.max_attempts, e.allow_stale_reentry,
       e.next_retry_at IS NOT NULL AS is_retryable, e.next_retry_at <= $3 AS is_retry_due, l.execution_id IS NOT NULL AS is_leased,
       l.attempt AS lease_attempt, l.stale_after <= $3 AND NOT k.dropped AS is_stale,
       e.owner::oid AS owner, e.queue, e.priority, e.next_retry_at, l.cancel_requested, l.lease_token
  FROM sched.ledger e
  LEFT JOIN sched.lease l ON l.execution_id = e.id
 CROSS JOIN LATERAL (SELECT (SELECT true FROM sched.schedule_dropped d WHERE d.schedule_id = e.schedule_id) IS NOT NULL AS dropped) AS k
 WHERE e.key = $1 AND e.plan_time = $2
