-- Jobs of schedules that were imported; a name that is taken is left out of the result.
-- Inserted in the order of their names, so that two sessions never wait for each other in a circle.
-- A worker's failed attempts wait as define_job has them wait; those of the server have no second one.
-- $1 names, $2 kinds, $3 commands (NULL = none), $4 queues, $5 attempts, $6 owners, $7 whether each statement is a transaction of its own
INSERT INTO sched.job (job_name, kind, command, queue, max_attempts, retry_backoff, allow_stale_reentry, priority, owner, own_transactions)
SELECT n.job_name, n.kind, n.command, n.queue, n.max_attempts,
       CASE n.kind WHEN 'pull' THEN '{00:00:10,00:01}'::interval[] ELSE '{}' END, true, 0, n.owner, n.own_transactions
  FROM unnest($1, $2, $3, $4, $5, $6, $7) AS n (job_name, kind, command, queue, max_attempts, owner, own_transactions)
 ORDER BY n.job_name COLLATE "C"
    ON CONFLICT (job_name) DO NOTHING
RETURNING job_name
