-- Ends the runs whose lease holds and whose owner the caller may act for; a row for each that did not end, and for each
-- that somebody waits for; before them one with counted (store/counted.rs). In the order of their ids, so that two sessions never wait for each other in a circle. $1 execution_ids, $2 lease_tokens, $3 now, $4 caller
WITH asked AS MATERIALIZED (
    SELECT a.execution_id, a.lease_token FROM unnest($1, $2) AS a (execution_id, lease_token) ORDER BY 1, 2
), ended AS (
    DELETE FROM sched.lease l
     USING asked a
     WHERE l.execution_id = a.execution_id AND l.lease_token = a.lease_token AND pg_has_role($4, l.owner, 'USAGE')
    RETURNING l.*
), finished AS (
    UPDATE sched.ledger e
       SET status = 'SUCCESS', attempt = d.attempt, runner_id = d.runner_id, lease_token = d.lease_token,
           fence = d.fence, started_at = d.started_at, heartbeat_at = d.heartbeat_at, progress = d.progress,
           finished_at = $3, updated_at = $3, rows_affected = NULL, result = '{}',
           error_code = NULL, error_msg = NULL, next_retry_at = NULL
      FROM ended d
     WHERE e.id = d.execution_id
    RETURNING e.id, e.schedule_id, e.awaited, e.job_name, e.queue, e.owner, e.started_at
)
SELECT NULL AS execution_id, NULL AS ended, NULL::bigint AS awaited_by,
       (SELECT json_agg(c)::text
          FROM (SELECT f.job_name AS job, f.queue, f.owner::oid::bigint AS owner, count(*) AS success,
                       array_agg((EXTRACT(epoch FROM $3 - f.started_at) * 1000000)::bigint) AS lasted
                  FROM finished f
                 GROUP BY f.job_name, f.queue, f.owner) AS c) AS counted
UNION ALL
SELECT a.execution_id, false, NULL, NULL
  FROM asked a
 WHERE a.execution_id NOT IN (SELECT f.id FROM finished f)
UNION ALL
SELECT f.id, true, f.schedule_id, NULL FROM finished f WHERE f.awaited
