-- Gives a job that is locked, and what waits of it, to another role: executions, the scopes that they have, and alerts. An execution that runs, or that
-- another transaction has locked, keeps its owner, and is counted. An execution of a third role, which enqueued it before the job was defined, is not touched.
-- $1 job_name, $2 the new owner, $3 the owner before
WITH handed AS (
    UPDATE sched.job j SET owner = $2, updated_at = sched.now() WHERE j.job_name = $1
), waiting AS MATERIALIZED (
    SELECT r.queue, r.priority, r.plan_time, r.execution_id, e.key
      FROM sched.ready r
      JOIN sched.ledger e ON e.id = r.execution_id
     WHERE e.job_name = $1 AND r.owner = $3
       FOR UPDATE OF r, e SKIP LOCKED
), postponed AS MATERIALIZED (
    SELECT r.retry_at, r.execution_id, e.key
      FROM sched.retry r
      JOIN sched.ledger e ON e.id = r.execution_id
     WHERE e.job_name = $1 AND r.owner = $3
       FOR UPDATE OF r, e SKIP LOCKED
), ready AS (
    UPDATE sched.ready r SET owner = $2
      FROM waiting w
     WHERE r.queue = w.queue AND r.priority = w.priority AND r.plan_time = w.plan_time AND r.execution_id = w.execution_id
), retry AS (
    UPDATE sched.retry r SET owner = $2 FROM postponed p WHERE r.retry_at = p.retry_at AND r.execution_id = p.execution_id
), ledger AS (
    UPDATE sched.ledger e SET owner = $2
      FROM (SELECT w.execution_id FROM waiting w UNION ALL SELECT p.execution_id FROM postponed p) AS m
     WHERE e.id = m.execution_id
), scopes AS (
    -- What waits in a scope is found in the ledger.
    DELETE FROM sched.unique_scope u USING (SELECT w.key FROM waiting w UNION SELECT p.key FROM postponed p) AS k WHERE u.key = k.key
), alerts AS (
    UPDATE sched.alert a SET owner = $2 FROM sched.schedule s WHERE s.job_name = $1 AND a.schedule_id = s.schedule_id
)
SELECT (SELECT count(*) FROM sched.ready r JOIN sched.ledger e ON e.id = r.execution_id WHERE e.job_name = $1 AND r.owner = $3)
       + (SELECT count(*) FROM sched.retry r JOIN sched.ledger e ON e.id = r.execution_id WHERE e.job_name = $1 AND r.owner = $3)
       - (SELECT count(*) FROM waiting) - (SELECT count(*) FROM postponed)
       + (SELECT count(*) FROM sched.lease l JOIN sched.ledger e ON e.id = l.execution_id WHERE e.job_name = $1 AND l.owner = $3) AS left_over
