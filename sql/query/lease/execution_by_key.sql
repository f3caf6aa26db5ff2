-- What is known of the execution of this key, with its lease, and whether it can only end: a dropped schedule has left it, or it is to be cancelled. $1 key, $2 plan_time
SELECT e.id, e.status, e.next_retry_at, e.attempt, e.max_attempts, e.allow_stale_reentry, e.owner::oid AS owner, e.origin, e.schedule_id, e.created_at, e.plan_time, e.run_at, e.queue, e.priority,
       l.execution_id AS "lease.execution_id", l.stale_after AS "lease.stale_after", l.cancel_requested AS "lease.cancel_requested",
       l.attempt AS "lease.attempt", l.lease_token AS "lease.lease_token", k.can_only_end
  FROM sched.ledger e
  LEFT JOIN sched.lease l ON l.execution_id = e.id
 CROSS JOIN LATERAL (SELECT EXISTS (SELECT FROM sched.schedule_dropped d WHERE d.schedule_id = e.schedule_id)
                                OR EXISTS (SELECT FROM sched.cancel_request c WHERE c.execution_id = e.id) AS can_only_end) AS k
 WHERE e.key = $1 AND e.plan_time = $2
