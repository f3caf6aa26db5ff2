-- The execution of this key, new or known; the row of another owner is left alone and seen by its id only by the caller's check.
-- $1 key, $2 job_name, $3 scope_kind, $4 scope_id, $5 plan_time, $6 queue, $7 priority, $8 payload, $9 max_attempts,
-- $10 allow_stale_reentry, $11 owner
WITH added AS (
    INSERT INTO sched.ledger (key, job_name, scope_kind, scope_id, plan_time, queue, priority, payload, max_attempts,
                              allow_stale_reentry, origin, owner)
    VALUES ($1, $2, $3, $4, $5, $6, $7, $8, $9, $10, 'enqueue', $11)
        ON CONFLICT (key, plan_time) DO NOTHING
    RETURNING id, queue, priority, plan_time, owner
), claimable AS (
    INSERT INTO sched.ready (queue, priority, plan_time, execution_id, owner)
    SELECT a.queue, a.priority, a.plan_time, a.id, a.owner FROM added a
)
SELECT a.id FROM added a
