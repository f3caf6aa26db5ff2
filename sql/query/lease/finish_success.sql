-- $1 execution_id, $2 lease_token, $3 rows_affected, $4 result, $5 now
WITH ended AS (
    DELETE FROM sched.lease l WHERE l.execution_id = $1 AND l.lease_token = $2 RETURNING l.*
)
UPDATE sched.ledger e
   SET status = 'SUCCESS', attempt = d.attempt, runner_id = d.runner_id, lease_token = d.lease_token, fence = d.fence,
       started_at = d.started_at, heartbeat_at = d.heartbeat_at, progress = d.progress,
       finished_at = $5, updated_at = $5, rows_affected = $3, result = $4,
       error_code = NULL, error_msg = NULL, next_retry_at = NULL
  FROM ended d
 WHERE e.id = d.execution_id
RETURNING e.id, e.owner::oid AS owner, e.awaited, e.schedule_id, e.job_name, e.queue, e.status, e.started_at, e.next_retry_at
