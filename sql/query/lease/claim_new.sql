-- The first that anyone hears of this key: the execution and its lease in one. No row where somebody else was first.
-- $1 key, $2 job_name, $3 scope_kind, $4 scope_id, $5 plan_time, $6 queue, $7 priority, $8 max_attempts,
-- $9 allow_stale_reentry, $10 owner, $11 runner_id, $12 stale_timeout, $13 now,
-- $14 until when the run may last (NULL = without end)
WITH won AS (
    INSERT INTO sched.ledger (key, job_name, scope_kind, scope_id, plan_time, queue, priority, payload, max_attempts,
                              allow_stale_reentry, origin, owner)
    VALUES ($1, $2, $3, $4, $5, $6, $7, '{}', $8, $9, 'claim', $10)
        ON CONFLICT (key, plan_time) DO NOTHING
    RETURNING id, owner, max_attempts, payload, queue
), leased AS (
    INSERT INTO sched.lease (execution_id, lease_token, fence, attempt, owner, started_at, heartbeat_at, stale_after,
                             sweep_at, stale_timeout, runner_id, run_until)
    SELECT w.id, gen_random_uuid(), nextval('sched.fence'), 1, w.owner, $13, $13, t.stale_after, t.stale_after, $12, $11, $14
      FROM won w
     -- 24 hours a day, whatever the session's zone
     CROSS JOIN (SELECT (($13 AT TIME ZONE 'UTC') + $12) AT TIME ZONE 'UTC' AS stale_after) AS t
    RETURNING execution_id, lease_token, fence, attempt, stale_after
)
SELECT l.execution_id, l.lease_token, l.fence, l.attempt, w.max_attempts, l.stale_after, w.payload, w.queue
  FROM leased l
  JOIN won w ON w.id = l.execution_id
