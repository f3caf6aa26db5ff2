-- Fails executions that nobody can run: an attempt each, as finish_failed has it.
-- $1 execution_ids, $2 retry times (NULL = terminal), $3 error_code, $4 error_msg, $5 now, $6 statuses
WITH decided AS (
    SELECT * FROM unnest($1, $2, $6) AS d (execution_id, retry_at, status)
), failed AS (
    UPDATE sched.ledger e
       SET status = d.status, attempt = e.attempt + 1, started_at = $5, finished_at = $5, updated_at = $5, runner_id = NULL,
           rows_affected = NULL, result = NULL, error_code = $3, error_msg = $4, next_retry_at = d.retry_at
      FROM decided d
     WHERE e.id = d.execution_id
    RETURNING e.id, e.queue, e.priority, e.plan_time, e.owner, e.next_retry_at, e.awaited, e.schedule_id, e.job_name, e.status, e.started_at
), gone AS (
    DELETE FROM sched.ready r
     USING failed f
     WHERE r.queue = f.queue AND r.priority = f.priority AND r.plan_time = f.plan_time AND r.execution_id = f.id
       AND (f.next_retry_at <= $5) IS NOT TRUE
), postponed AS (
    INSERT INTO sched.retry (retry_at, execution_id, queue, priority, plan_time, owner)
    SELECT f.next_retry_at, f.id, f.queue, f.priority, f.plan_time, f.owner FROM failed f WHERE f.next_retry_at > $5
)
SELECT f.next_retry_at, f.id, f.owner::oid AS owner, f.awaited, f.schedule_id, f.queue, f.priority, f.plan_time,
       f.job_name, f.status, f.started_at
  FROM failed f
