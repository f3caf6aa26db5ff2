-- Takes over a stale run, if its lease is still the one that was seen. No row where somebody else has it in hand.
-- $1 execution_id, $2 lease_token seen, $3 max_attempts (NULL = unchanged), $4 allow_stale_reentry (NULL = unchanged),
-- $5 runner_id, $6 stale_timeout, $7 now, $8 until when the run may last (NULL = without end)
WITH held AS MATERIALIZED (
    SELECT l.execution_id
      FROM sched.lease l
     WHERE l.execution_id = $1 AND l.lease_token = $2 AND l.stale_after <= $7
       FOR UPDATE SKIP LOCKED
), limits AS (
    UPDATE sched.ledger e
       SET max_attempts = COALESCE($3, e.max_attempts),
           allow_stale_reentry = COALESCE($4, e.allow_stale_reentry)
      FROM held h
     WHERE e.id = h.execution_id AND (e.max_attempts <> $3 OR e.allow_stale_reentry <> $4)
), stolen AS (
    UPDATE sched.lease l
       SET lease_token = gen_random_uuid(), fence = nextval('sched.fence'), attempt = l.attempt + 1, started_at = $7,
           heartbeat_at = $7, stale_after = t.stale_after, sweep_at = t.stale_after, stale_timeout = $6, runner_id = $5,
           progress = NULL, run_until = $8
      FROM held h
     -- 24 hours a day, whatever the session's zone
     CROSS JOIN (SELECT (($7 AT TIME ZONE 'UTC') + $6) AT TIME ZONE 'UTC' AS stale_after) AS t
     WHERE l.execution_id = h.execution_id
    RETURNING l.execution_id, l.lease_token, l.fence, l.attempt, l.stale_after
)
SELECT s.execution_id, s.lease_token, s.fence, s.attempt, COALESCE($3, e.max_attempts) AS max_attempts, s.stale_after, e.payload, e.queue
  FROM stolen s
  JOIN sched.ledger e ON e.id = s.execution_id
