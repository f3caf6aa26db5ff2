-- Runs of runners that are gone, locked, as lease_read has them; what somebody has in hand is left. Nothing of a run in one transaction was
-- committed: such a run may be tried again, whatever allow_stale_reentry says. $1 execution_ids
SELECT l.execution_id, l.attempt, e.max_attempts, e.allow_stale_reentry OR l.own_transactions IS NOT TRUE AS allow_stale_reentry,
       e.owner::oid AS owner, j.retry_backoff, l.cancel_requested
  FROM sched.lease l
  JOIN sched.ledger e ON e.id = l.execution_id
  LEFT JOIN sched.job j ON j.job_name = e.job_name
 WHERE l.execution_id = ANY ($1) AND l.sweep_at = 'infinity'
   FOR NO KEY UPDATE OF l, e SKIP LOCKED
