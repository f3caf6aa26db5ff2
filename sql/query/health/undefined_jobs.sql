-- Jobs that nobody has defined, of the first executions that wait in their queue, wait for a time or run; those whose names $2 may know, or all
-- ($3). $1 how many executions of each, $4 those that wait where they are known. Nothing waits for a time before the place of $5
-- retry_at and $6 execution_id, and no lease is to be looked at up to $7: before that the indexes have only what is gone.
WITH seen AS (
    (SELECT r.execution_id
       FROM sched.ready r
      WHERE $4 IS NULL AND r.queue = 'default'
      ORDER BY r.priority DESC, r.plan_time, r.execution_id
      LIMIT $1)
    UNION ALL
    SELECT k.execution_id FROM unnest($4) AS k (execution_id)
    UNION ALL
    (SELECT r.execution_id FROM sched.retry r WHERE (r.retry_at, r.execution_id) >= ($5, $6) ORDER BY r.retry_at, r.execution_id LIMIT $1)
    UNION ALL
    (SELECT l.execution_id FROM sched.lease l WHERE l.sweep_at > $7 ORDER BY l.sweep_at LIMIT $1)
), names AS (
    SELECT DISTINCT e.job_name
      FROM seen s
      JOIN sched.ledger e ON e.id = s.execution_id
     WHERE ($3 OR pg_has_role($2, e.owner, 'USAGE'))
       AND (SELECT j.job_name FROM sched.job j WHERE j.job_name = e.job_name) IS NULL
)
SELECT array_agg(n.job_name ORDER BY n.job_name) AS names FROM names n
