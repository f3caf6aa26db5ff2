-- The newest that have ended for good, by when they were made: along the index, for which a view over all of them leaves no way.
-- $1 job (NULL = all), $2 how many, $3 reader, $4 whether it reads everything
SELECT e.id, e.job_name, e.scope_kind, e.scope_id, e.plan_time,
       CASE WHEN octet_length(e.queue) > 57 THEN substr(e.queue, 73) ELSE e.queue END AS queue, e.status, e.attempt, e.max_attempts, e.runner_id,
       e.started_at, e.finished_at, (EXTRACT(epoch FROM e.finished_at - e.started_at) * 1000)::bigint AS duration_ms, e.rows_affected,
       CASE WHEN r.owns THEN e.result END AS result, e.error_code, CASE WHEN r.owns THEN e.error_msg END AS error_msg, e.origin, e.schedule_name
  FROM sched.ledger e
 CROSS JOIN LATERAL (SELECT pg_has_role($3, e.owner, 'USAGE') AS owns) AS r
 WHERE ($1 IS NULL OR e.job_name = $1)
   AND (e.status IN ('SUCCESS', 'CANCELLED') OR (e.status = 'FAILED' AND e.next_retry_at IS NULL))
   AND NOT EXISTS (SELECT FROM sched.lease l WHERE l.execution_id = e.id)
   AND (r.owns OR $4)
 ORDER BY e.id DESC
 LIMIT $2
