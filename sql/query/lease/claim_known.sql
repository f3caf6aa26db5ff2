-- A lease on an execution that waits in sched.ready or sched.retry. No row where somebody else has it in hand.
-- $1 execution_id, $2 queue, $3 priority, $4 plan_time, $5 next_retry_at (NULL = none), $6 max_attempts (NULL = unchanged),
-- $7 allow_stale_reentry (NULL = unchanged), $8 runner_id, $9 stale_timeout, $10 now,
-- $11 until when the run may last (NULL = without end)
WITH waiting AS MATERIALIZED (
    SELECT r.execution_id
      FROM sched.ready r
     WHERE r.queue = $2 AND r.priority = $3 AND r.plan_time = $4 AND r.execution_id = $1
       FOR UPDATE SKIP LOCKED
), postponed AS MATERIALIZED (
    SELECT r.execution_id
      FROM sched.retry r
     WHERE r.retry_at = $5 AND r.execution_id = $1
       FOR UPDATE SKIP LOCKED
), taken AS (
    DELETE FROM sched.ready r
     USING waiting w
     WHERE r.queue = $2 AND r.priority = $3 AND r.plan_time = $4 AND r.execution_id = w.execution_id
), recalled AS (
    DELETE FROM sched.retry r USING postponed p WHERE r.retry_at = $5 AND r.execution_id = p.execution_id
), limits AS (
    UPDATE sched.ledger e
       SET max_attempts = COALESCE($6, e.max_attempts),
           allow_stale_reentry = COALESCE($7, e.allow_stale_reentry)
     WHERE e.id = $1 AND (e.max_attempts <> $6 OR e.allow_stale_reentry <> $7)
       AND e.id IN (SELECT w.execution_id FROM waiting w UNION ALL SELECT p.execution_id FROM postponed p)
), leased AS (
    INSERT INTO sched.lease (execution_id, lease_token, fence, attempt, owner, started_at, heartbeat_at, stale_after,
                             sweep_at, stale_timeout, runner_id, run_until)
    SELECT e.id, gen_random_uuid(), nextval('sched.fence'), e.attempt + 1, e.owner, $10, $10, t.stale_after, t.stale_after, $9, $8, $11
      FROM (SELECT w.execution_id FROM waiting w UNION ALL SELECT p.execution_id FROM postponed p) AS m
      JOIN sched.ledger e ON e.id = m.execution_id
     -- 24 hours a day, whatever the session's zone
     CROSS JOIN (SELECT (($10 AT TIME ZONE 'UTC') + $9) AT TIME ZONE 'UTC' AS stale_after) AS t
    RETURNING execution_id, lease_token, fence, attempt, stale_after
)
SELECT l.execution_id, l.lease_token, l.fence, l.attempt, COALESCE($6, e.max_attempts) AS max_attempts, l.stale_after, e.payload, e.queue
  FROM leased l
  JOIN sched.ledger e ON e.id = l.execution_id
