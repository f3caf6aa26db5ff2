-- Creates, or replaces a job that is locked (job_ready_queue); no row where somebody has made it meanwhile. Whether its schedules could not
-- use it before: it is new, or its owner was dropped (as it was when this statement began) and is the caller now; and where its executions wait.
-- $1 job_name, $2 kind, $3 command, $4 queue, $5 max_attempts, $6 retry_backoff, $7 run_timeout, $8 stale_timeout,
-- $9 allow_stale_reentry, $10 priority, $11 caller, $12 own_transactions, $13 settings, $14 the owner of the one that is locked (NULL = none),
-- $15 whether the caller becomes the owner of that one
INSERT INTO sched.job AS j (job_name, kind, command, queue, max_attempts, retry_backoff, run_timeout, stale_timeout,
                            allow_stale_reentry, priority, owner, own_transactions, settings)
VALUES ($1, $2, $3, $4, $5, $6, $7, $8, $9, $10, $11, $12, $13)
    ON CONFLICT (job_name) DO UPDATE
   SET kind = excluded.kind, command = excluded.command, queue = excluded.queue, max_attempts = excluded.max_attempts,
       retry_backoff = excluded.retry_backoff, run_timeout = excluded.run_timeout, stale_timeout = excluded.stale_timeout,
       allow_stale_reentry = excluded.allow_stale_reentry, priority = excluded.priority,
       own_transactions = excluded.own_transactions, settings = excluded.settings, updated_at = sched.now(),
       owner = CASE WHEN $15 THEN excluded.owner ELSE j.owner END
 WHERE j.owner::oid = $14
RETURNING NOT EXISTS (SELECT
                        FROM sched.job b
                       WHERE b.job_name = $1 AND EXISTS (SELECT FROM pg_roles r WHERE r.oid = b.owner)) AS was_unusable, j.ready_queue
