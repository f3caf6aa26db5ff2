-- What became of executions, and when the last attempt of each began and ended; whether it began later than it may, or has not begun by now; whether that
-- attempt takes longer than it may; why it failed for good, with the first line of the message for who may read it. $1 execution_ids, $2 role
SELECT e.id, e.plan_time,
       CASE WHEN l.execution_id IS NOT NULL THEN 'RUNNING' WHEN e.next_retry_at IS NOT NULL AND e.status = 'FAILED' THEN 'PENDING' ELSE e.status END AS status,
       COALESCE(l.attempt, e.attempt) AS attempt, COALESCE(l.started_at, e.started_at) AS started_at,
       CASE WHEN l.execution_id IS NULL THEN e.finished_at END AS finished_at,
       CASE WHEN l.execution_id IS NOT NULL THEN 'RUNNING' ELSE e.status END AS attempt_status,
       (e.origin <> 'backfill' AND e.run_at IS NULL AND COALESCE(l.attempt, e.attempt) <= 1
        AND COALESCE(l.started_at, e.started_at, sched.now()) - e.plan_time > s.max_lateness) IS TRUE AS is_late,
       CASE WHEN l.execution_id IS NOT NULL THEN sched.now() - l.started_at > s.max_duration
            ELSE e.finished_at - e.started_at > s.max_duration END IS TRUE AS is_long,
       CASE WHEN f.failed THEN e.error_code END AS error_code, f.message AS error_msg
  FROM sched.ledger e
  LEFT JOIN sched.lease l ON l.execution_id = e.id
  LEFT JOIN sched.schedule s ON s.schedule_id = e.schedule_id
 CROSS JOIN LATERAL (
       SELECT b.failed, CASE WHEN b.failed AND pg_has_role($2, e.owner, 'USAGE') THEN left(split_part(ltrim(e.error_msg, E' \n\r\t'), E'\n', 1), 200) END AS message
         FROM (SELECT l.execution_id IS NULL AND e.status = 'FAILED' AND e.next_retry_at IS NULL AS failed) AS b) AS f
 WHERE e.id = ANY ($1)
