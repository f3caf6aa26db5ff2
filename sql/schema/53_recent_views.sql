-- What a person looks at first, at a cost that does not grow with the ledger.

-- By the ledger's key, scope by scope: an index on the schedule would cost each fire an entry.
CREATE VIEW sched.last_runs WITH (security_barrier) AS
SELECT s.schedule_name, n.plan_time, n.id, n.job_name, n.status, n.attempt, n.max_attempts, n.runner_id, n.started_at, n.finished_at,
       (EXTRACT(epoch FROM n.finished_at - n.started_at) * 1000)::bigint AS duration_ms, n.rows_affected,
       CASE WHEN n.owns THEN n.result END AS result, n.error_code, CASE WHEN n.owns THEN n.error_msg END AS error_msg, n.origin
  FROM sched.schedule s
 CROSS JOIN LATERAL (
       SELECT e.*
         FROM (SELECT s.key UNION SELECT pg_catalog.unnest(s.previous_keys)) AS k (key)
        CROSS JOIN LATERAL (
              SELECT e.plan_time, e.id, e.job_name, e.status, e.attempt, e.max_attempts, e.runner_id, e.started_at, e.finished_at, e.rows_affected,
                     e.result, e.error_code, e.error_msg, e.origin, r.owns
                FROM sched.ledger e
               CROSS JOIN LATERAL (SELECT pg_catalog.pg_has_role(current_user, e.owner, 'USAGE') AS owns) AS r
               WHERE e.key = k.key AND e.schedule_id = s.schedule_id
                 AND (e.status IN ('SUCCESS', 'CANCELLED') OR (e.status = 'FAILED' AND e.next_retry_at IS NULL))
                 AND NOT EXISTS (SELECT FROM sched.lease l WHERE l.execution_id = e.id)
                 AND (r.owns OR (SELECT pg_catalog.has_table_privilege('sched.monitor', 'SELECT')))
               ORDER BY e.plan_time DESC
               LIMIT 20) AS e
        ORDER BY e.plan_time DESC
        LIMIT 20) AS n;
COMMENT ON VIEW sched.last_runs IS 'of each schedule the 20 newest executions that have ended for good, newest first; name the schedule, and it is answered at once';

-- From one queue to the next by the index.
CREATE VIEW sched.waiting WITH (security_barrier) AS
WITH RECURSIVE queues (stored) AS (
    (SELECT r.queue FROM sched.ready r ORDER BY r.queue LIMIT 1)
    UNION ALL
    SELECT n.queue
      FROM queues q
     CROSS JOIN LATERAL (SELECT r.queue FROM sched.ready r WHERE r.queue > q.stored ORDER BY r.queue LIMIT 1) AS n)
SELECT q.queue, w.position, w.priority, w.plan_time, w.execution_id, e.job_name, e.scope_kind, e.scope_id, e.schedule_name, e.attempt,
       GREATEST(e.created_at, e.run_at, e.next_retry_at) AS waits_since
  FROM (SELECT q.stored, CASE WHEN pg_catalog.octet_length(q.stored) > 57 THEN pg_catalog.substr(q.stored, 73) ELSE q.stored END AS queue
          FROM queues q
         WHERE NOT (pg_catalog.octet_length(q.stored) > 57 AND pg_catalog.starts_with(q.stored, 'elsewhere:'))) AS q
 CROSS JOIN LATERAL (
       SELECT r.priority, r.plan_time, r.execution_id, pg_catalog.row_number() OVER (ORDER BY r.priority DESC, r.plan_time, r.execution_id) AS position
         FROM (SELECT r.priority, r.plan_time, r.execution_id
                 FROM sched.ready r
                WHERE r.queue = q.stored
                  AND (pg_catalog.pg_has_role(current_user, r.owner, 'USAGE') OR (SELECT pg_catalog.has_table_privilege('sched.monitor', 'SELECT')))
                ORDER BY r.queue, r.priority DESC, r.plan_time, r.execution_id
                LIMIT 100) AS r) AS w
  JOIN sched.ledger e ON e.id = w.execution_id;
COMMENT ON VIEW sched.waiting IS 'of each queue the first 100 executions that can be claimed, in the order in which they will be';
