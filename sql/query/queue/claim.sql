-- Leases what is claimable in a queue, unless it is paused for all or for its owner, by priority, then plan time; skips what others are claiming. The limit stands in
-- MATERIALIZED parts, so that no join can run them twice and lock more than was asked for.
-- What a dispatcher has made claimable since the caller looked at the clock was not due then: a run begins when it is granted.
-- Days of a lease have 24 hours, whatever the session's zone: UTC has no others.
-- $1 queue, $2 limit, $3 runner_id, $4 stale_timeout (NULL = the job's), $5 setting sched.stale_timeout, $6 now, $7 caller, $8 whether the leases last as long as the process of who
-- claims
WITH paused AS MATERIALIZED (
    -- The queue of its jobs, where it is one of runners.
    SELECT p.owner FROM sched.paused_queue p WHERE p.queue = CASE WHEN octet_length($1) > 57 THEN substr($1, 73) ELSE $1 END
), fresh AS MATERIALIZED (
    SELECT r.execution_id, r.priority, r.plan_time, 0 AS attempt
      FROM sched.ready r
     -- What was left without its execution stays where it is, what a dropped schedule has left, and what is to be cancelled. (A subquery that no planner turns into
     -- a join of all executions.)
     WHERE r.queue = $1 AND pg_has_role($7, r.owner, 'USAGE')
       AND NOT EXISTS (SELECT FROM paused p WHERE p.owner IS NULL) AND r.owner <> ALL (ARRAY(SELECT p.owner FROM paused p))
       AND (SELECT c.execution_id FROM sched.cancel_request c WHERE c.execution_id = r.execution_id LIMIT 1) IS NULL
       AND (SELECT (SELECT d.schedule_id FROM sched.schedule_dropped d WHERE d.schedule_id = e.schedule_id) IS NULL
              FROM sched.ledger e
             WHERE e.id = r.execution_id)
     ORDER BY r.priority DESC, r.plan_time, r.execution_id
     LIMIT $2
       FOR UPDATE SKIP LOCKED
), abandoned AS MATERIALIZED (
    SELECT l.execution_id, e.priority, e.plan_time, l.attempt
      FROM sched.lease l
      JOIN sched.ledger e ON e.id = l.execution_id
     WHERE l.sweep_at <= $6 AND l.stale_after <= $6 AND e.queue = $1 AND e.allow_stale_reentry
       AND l.attempt < e.max_attempts AND NOT l.cancel_requested AND pg_has_role($7, l.owner, 'USAGE')
       AND NOT EXISTS (SELECT FROM paused p WHERE p.owner IS NULL) AND l.owner <> ALL (ARRAY(SELECT p.owner FROM paused p))
       AND (SELECT d.schedule_id FROM sched.schedule_dropped d WHERE d.schedule_id = e.schedule_id) IS NULL
       AND (SELECT c.execution_id FROM sched.cancel_request c WHERE c.execution_id = l.execution_id LIMIT 1) IS NULL
     ORDER BY e.priority DESC, e.plan_time, e.id
     LIMIT $2
       FOR UPDATE OF l SKIP LOCKED
), picked AS MATERIALIZED (
    SELECT f.*, false AS was_leased FROM fresh f
    UNION ALL
    SELECT a.*, true FROM abandoned a
     ORDER BY priority DESC, plan_time, execution_id
     LIMIT $2
), taken AS (
    DELETE FROM sched.ready r
     USING picked p
     WHERE NOT p.was_leased AND r.queue = $1 AND r.priority = p.priority AND r.plan_time = p.plan_time
       AND r.execution_id = p.execution_id
), granted AS MATERIALIZED (
    SELECT p.execution_id, p.was_leased, CASE WHEN p.was_leased THEN p.attempt ELSE e.attempt END + 1 AS attempt,
           e.owner, e.origin, e.schedule_id, e.created_at, e.run_at, e.job_name, e.scope_kind, e.scope_id, e.plan_time, e.priority, e.payload, e.max_attempts, j.run_timeout, gen_random_uuid() AS lease_token, nextval('sched.fence') AS fence,
           b.began,
           t.stale_timeout, CASE WHEN $8 THEN 'infinity' ELSE ((b.began AT TIME ZONE 'UTC') + t.stale_timeout) AT TIME ZONE 'UTC' END AS stale_after,
           ((b.began AT TIME ZONE 'UTC') + j.run_timeout) AT TIME ZONE 'UTC' AS run_until
      FROM picked p
      JOIN sched.ledger e ON e.id = p.execution_id
      LEFT JOIN sched.job j ON j.job_name = e.job_name
     CROSS JOIN LATERAL (SELECT COALESCE($4, j.stale_timeout, $5) AS stale_timeout) AS t
     CROSS JOIN (SELECT greatest($6, sched.now()) AS began) AS b
     ORDER BY p.priority DESC, p.plan_time, p.execution_id
), leased AS (
    INSERT INTO sched.lease (execution_id, lease_token, fence, attempt, owner, started_at, heartbeat_at, stale_after,
                             sweep_at, stale_timeout, runner_id, run_until)
    SELECT g.execution_id, g.lease_token, g.fence, g.attempt, g.owner, g.began, g.began, g.stale_after,
           g.stale_after, g.stale_timeout, $3, g.run_until
      FROM granted g
     WHERE NOT g.was_leased
), stolen AS (
    UPDATE sched.lease l
       SET lease_token = g.lease_token, fence = g.fence, attempt = g.attempt, started_at = g.began, heartbeat_at = g.began,
           stale_after = g.stale_after, sweep_at = g.stale_after, stale_timeout = g.stale_timeout,
           runner_id = $3, progress = NULL, run_until = g.run_until
      FROM granted g
     WHERE g.was_leased AND l.execution_id = g.execution_id
)
SELECT g.execution_id, g.lease_token, g.fence, g.attempt, g.job_name, g.scope_kind, g.scope_id, g.plan_time, g.payload,
       g.stale_after, g.max_attempts, g.run_timeout, g.owner::oid AS owner, g.origin, g.schedule_id, g.created_at, g.run_at
  FROM granted g
 ORDER BY g.priority DESC, g.plan_time, g.execution_id
