-- Leases that ran out, locked, as lease_read has them. Picked from the leases alone, so that the cost is that of what is stale,
-- whatever the ledger holds. $1 job_name (NULL = all), $2 now, $3 limit, $4 caller
WITH stale AS MATERIALIZED (
    SELECT l.execution_id, l.attempt, l.cancel_requested, l.sweep_at
      FROM sched.lease l
     WHERE l.sweep_at <= $2 AND l.stale_after <= $2 AND pg_has_role($4, l.owner, 'USAGE')
       AND ($1 IS NULL OR EXISTS (SELECT FROM sched.ledger e WHERE e.id = l.execution_id AND e.job_name = $1))
     ORDER BY l.sweep_at
     LIMIT $3
       FOR UPDATE SKIP LOCKED
)
SELECT s.attempt, e.max_attempts, e.allow_stale_reentry, e.owner::oid, j.retry_backoff, s.cancel_requested,
       s.execution_id
  FROM stale s
  JOIN sched.ledger e ON e.id = s.execution_id
  LEFT JOIN sched.job j ON j.job_name = e.job_name
