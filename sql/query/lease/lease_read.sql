-- A lease and what decides the fate of its run, locked. $1 execution_id, $2 lease_token
SELECT l.execution_id, l.attempt, e.max_attempts, e.allow_stale_reentry, e.owner::oid AS owner, j.retry_backoff, l.cancel_requested
  FROM sched.lease l
  JOIN sched.ledger e ON e.id = l.execution_id
  LEFT JOIN sched.job j ON j.job_name = e.job_name
 WHERE l.execution_id = $1 AND l.lease_token = $2
   FOR UPDATE OF l
