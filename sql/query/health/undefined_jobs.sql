-- Jobs that nobody has defined, of the first executions that wait in their queue, wait for a time or run; those whose names $2 may know, or all
-- ($3). $1 how many executions of each
WITH seen AS (
    (SELECT r.execution_id FROM sched.ready r WHERE r.queue = 'default' ORDER BY r.priority DESC, r.plan_time, r.execution_id LIMIT $1)
    UNION ALL
    (SELECT r.execution_id FROM sched.retry r ORDER BY r.retry_at, r.execution_id LIMIT $1)
    UNION ALL
    (SELECT l.execution_id FROM sched.lease l ORDER BY l.execution_id LIMIT $1)
), names AS (
    SELECT DISTINCT e.job_name
      FROM seen s
      JOIN sched.ledger e ON e.id = s.execution_id
     WHERE ($3 OR pg_has_role($2, e.owner, 'USAGE'))
       AND (SELECT j.job_name FROM sched.job j WHERE j.job_name = e.job_name) IS NULL
)
SELECT array_agg(n.job_name ORDER BY n.job_name) AS names FROM names n
