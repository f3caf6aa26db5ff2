-- A holder gives a run back until a time, and its attempt does not count: the execution is again what it was before the claim, but waits until then.
-- What the ledger does not know is an attempt before this one whose lease ran out and was taken over: it has failed by now. Where the run was
-- asked to stop, or its schedule was dropped with all that it had pending (infinity), it ends. No row where the lease is lost.
-- $1 execution_id, $2 lease_token, $3 until, $4 now
WITH given_back AS (
    DELETE FROM sched.lease l WHERE l.execution_id = $1 AND l.lease_token = $2 RETURNING l.*
), judged AS MATERIALIZED (
    SELECT g.*, e.attempt < g.attempt - 1 AS was_lost,
           g.cancel_requested OR e.run_at IS NOT DISTINCT FROM 'infinity'
               OR EXISTS (SELECT FROM sched.schedule_dropped d WHERE d.schedule_id = e.schedule_id)
               OR EXISTS (SELECT FROM sched.cancel_request c WHERE c.execution_id = g.execution_id) AS ends
      FROM given_back g
      JOIN sched.ledger e ON e.id = g.execution_id
       FOR UPDATE OF e
), changed AS (
    UPDATE sched.ledger e
       SET status = CASE WHEN j.ends THEN 'CANCELLED' WHEN j.attempt = 1 THEN 'PENDING' ELSE 'FAILED' END,
           attempt = CASE WHEN j.ends THEN j.attempt ELSE j.attempt - 1 END,
           run_at = CASE WHEN j.ends OR j.attempt > 1 THEN e.run_at ELSE $3 END,
           next_retry_at = CASE WHEN NOT j.ends AND (j.attempt > 1 OR $3 > $4) THEN $3 END,
           runner_id = CASE WHEN j.ends THEN j.runner_id ELSE e.runner_id END,
           lease_token = CASE WHEN j.ends THEN j.lease_token ELSE e.lease_token END,
           fence = CASE WHEN j.ends THEN j.fence ELSE e.fence END,
           started_at = CASE WHEN j.ends THEN j.started_at ELSE e.started_at END,
           heartbeat_at = CASE WHEN j.ends THEN j.heartbeat_at ELSE e.heartbeat_at END,
           progress = CASE WHEN j.ends THEN j.progress ELSE e.progress END,
           finished_at = CASE WHEN j.ends OR j.was_lost THEN $4 ELSE e.finished_at END,
           error_code = CASE WHEN j.ends THEN NULL WHEN j.was_lost THEN 'stale_timeout' ELSE e.error_code END,
           error_msg = CASE WHEN j.ends THEN NULL WHEN j.was_lost THEN 'lease expired without heartbeat' ELSE e.error_msg END,
           updated_at = $4
      FROM judged j
     WHERE e.id = j.execution_id
    RETURNING e.id, e.queue, e.priority, e.plan_time, e.owner, e.awaited, e.schedule_id, e.job_name, e.status, e.started_at, j.ends
), claimable AS (
    INSERT INTO sched.ready (queue, priority, plan_time, execution_id, owner)
    SELECT c.queue, c.priority, c.plan_time, c.id, c.owner FROM changed c WHERE NOT c.ends AND $3 <= $4
), postponed AS (
    INSERT INTO sched.retry (retry_at, execution_id, queue, priority, plan_time, owner)
    SELECT $3, c.id, c.queue, c.priority, c.plan_time, c.owner FROM changed c WHERE NOT c.ends AND $3 > $4
)
SELECT c.id, c.owner::oid AS owner, c.awaited, c.schedule_id, c.queue, c.priority, c.plan_time, CASE WHEN NOT c.ends THEN $3 END AS next_retry_at,
       c.ends, c.job_name, c.status, c.started_at
  FROM changed c
