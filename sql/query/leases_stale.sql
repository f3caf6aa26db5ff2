-- Leases that ran out, locked, as lease_read has them. $1 job_name (NULL = all), $2 now, $3 limit, $4 caller
SELECT l.attempt, e.max_attempts, e.allow_stale_reentry, e.owner::oid, j.retry_backoff, l.cancel_requested, l.execution_id
  FROM sched.lease l
  JOIN sched.ledger e ON e.id = l.execution_id
  LEFT JOIN sched.job j ON j.job_name = e.job_name
 WHERE l.sweep_at <= $2 AND l.stale_after <= $2 AND ($1 IS NULL OR e.job_name = $1)
   AND pg_has_role($4, l.owner, 'USAGE')
 ORDER BY l.sweep_at
 LIMIT $3
   FOR UPDATE OF l SKIP LOCKED
