-- Ends runs as FAILED or CANCELLED; with a retry time they wait in sched.retry, or in sched.ready when it has come.
-- $1 execution_ids, $2 retry times (NULL = terminal), $3 error_code, $4 error_msg, $5 now, $6 statuses
WITH decided AS (
    SELECT * FROM unnest($1, $2, $6) AS d (execution_id, retry_at, status)
), ended AS (
    DELETE FROM sched.lease l
     USING decided d
     WHERE l.execution_id = d.execution_id
    RETURNING l.*, d.retry_at, d.status
), failed AS (
    UPDATE sched.ledger e
       SET status = d.status, attempt = d.attempt, runner_id = d.runner_id, lease_token = d.lease_token,
           fence = d.fence, started_at = d.started_at, heartbeat_at = d.heartbeat_at, progress = d.progress,
           finished_at = $5, updated_at = $5, rows_affected = NULL, result = NULL,
           error_code = $3, error_msg = $4, next_retry_at = d.retry_at
      FROM ended d
     WHERE e.id = d.execution_id
    RETURNING e.id, e.queue, e.priority, e.plan_time, e.owner, e.next_retry_at, e.awaited, e.schedule_id, e.job_name, e.status, e.started_at
), claimable AS (
    INSERT INTO sched.ready (queue, priority, plan_time, execution_id, owner)
    SELECT f.queue, f.priority, f.plan_time, f.id, f.owner FROM failed f WHERE f.next_retry_at <= $5
), postponed AS (
    INSERT INTO sched.retry (retry_at, execution_id, queue, priority, plan_time, owner)
    SELECT f.next_retry_at, f.id, f.queue, f.priority, f.plan_time, f.owner FROM failed f WHERE f.next_retry_at > $5
)
SELECT f.next_retry_at, f.id, f.owner::oid AS owner, f.awaited, f.schedule_id, f.queue, f.priority, f.plan_time,
       f.job_name, f.status, f.started_at
  FROM failed f
