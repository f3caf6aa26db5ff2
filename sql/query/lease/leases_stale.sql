-- Leases that ran out, locked, as lease_read has them. Picked from the leases alone, so that the cost is that of what is stale,
-- whatever the ledger holds. Then the rows of the ledger to which the ends are written: one that somebody's open transaction has in hand
-- (schedule_await_unfinished) is not waited for. Such runs are marked as not free, and come again after as long as they have been
-- stale, between 1 s and 10 s, so that many of them take no turn from others.
-- $1 job_name (NULL = all), $2 now, $3 limit, $4 caller, $5 no lease is to be looked at up to this time
WITH stale AS MATERIALIZED (
    SELECT l.execution_id, l.attempt, l.cancel_requested, l.stale_after
      FROM sched.lease l
     WHERE l.sweep_at > $5 AND l.sweep_at <= $2 AND l.stale_after <= $2 AND pg_has_role($4, l.owner, 'USAGE')
       AND ($1 IS NULL OR EXISTS (SELECT FROM sched.ledger e WHERE e.id = l.execution_id AND e.job_name = $1))
     ORDER BY l.sweep_at
     LIMIT $3
       FOR UPDATE SKIP LOCKED
), free AS MATERIALIZED (
    SELECT e.id
      FROM sched.ledger e
     WHERE e.id = ANY (ARRAY(SELECT s.execution_id FROM stale s))
       FOR NO KEY UPDATE SKIP LOCKED
), put_off AS (
    UPDATE sched.lease l
       SET sweep_at = $2 + least(greatest(CASE WHEN isfinite(s.stale_after) THEN $2 - s.stale_after END, interval '1 second'), interval '10 seconds')
      FROM stale s
     WHERE l.execution_id = s.execution_id AND s.execution_id NOT IN (SELECT f.id FROM free f)
)
SELECT s.attempt, e.max_attempts, e.allow_stale_reentry, e.owner::oid AS owner, j.retry_backoff, s.cancel_requested,
       s.execution_id, s.execution_id IN (SELECT f.id FROM free f) AS is_free
  FROM stale s
  JOIN sched.ledger e ON e.id = s.execution_id
  LEFT JOIN sched.job j ON j.job_name = e.job_name
