-- What waits and the caller may act for, of a job, a queue as users see it, a scope; locked, and without what others have in hand. (Subqueries that no
-- planner turns into a join of all executions.)
-- $1 job_name (NULL = all), $2 queue (NULL = all), $3 scope_id (NULL = all), $4 limit, $5 caller
WITH waiting AS MATERIALIZED (
    SELECT r.execution_id
      FROM sched.ready r
     WHERE pg_has_role($5, r.owner, 'USAGE')
       AND ($2 IS NULL OR r.queue = $2 OR (octet_length(r.queue) > 57 AND substr(r.queue, 73) = $2))
       AND (SELECT ($1 IS NULL OR e.job_name = $1) AND ($3 IS NULL OR e.scope_id = $3)
              FROM sched.ledger e
             WHERE e.id = r.execution_id)
     LIMIT $4
       FOR UPDATE SKIP LOCKED
), postponed AS MATERIALIZED (
    SELECT r.execution_id
      FROM sched.retry r
     WHERE pg_has_role($5, r.owner, 'USAGE')
       AND ($2 IS NULL OR r.queue = $2 OR (octet_length(r.queue) > 57 AND substr(r.queue, 73) = $2))
       AND (SELECT ($1 IS NULL OR e.job_name = $1) AND ($3 IS NULL OR e.scope_id = $3)
              FROM sched.ledger e
             WHERE e.id = r.execution_id)
     LIMIT $4 - (SELECT count(*) FROM waiting)
       FOR UPDATE SKIP LOCKED
)
SELECT array_agg(a.execution_id) AS execution_ids
  FROM (SELECT w.execution_id FROM waiting w UNION ALL SELECT p.execution_id FROM postponed p) AS a
