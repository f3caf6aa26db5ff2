-- Executions of an sql job that nobody runs are cancelled, and a run that goes on is the last one of its execution. They are found where they
-- wait. What somebody is just claiming or ending is left to him: without its job it does not run.
-- counted: store/counted.rs. $1 job_name, $2 now
WITH place AS MATERIALIZED (
    SELECT j.ready_queue FROM sched.job j WHERE j.job_name = $1
), waiting AS MATERIALIZED (
    SELECT r.ctid AS place, r.execution_id
      FROM place p
      JOIN sched.ready r ON r.queue = p.ready_queue
      JOIN sched.ledger e ON e.id = r.execution_id AND e.job_name = $1
       FOR UPDATE OF r, e SKIP LOCKED
), postponed AS MATERIALIZED (
    SELECT r.ctid AS place, r.execution_id
      FROM place p
      -- (By an index: all of what waits for a time.)
      JOIN sched.retry r ON r.queue = p.ready_queue AND r.retry_at > '-infinity'
      JOIN sched.ledger e ON e.id = r.execution_id AND e.job_name = $1
       FOR UPDATE OF r, e SKIP LOCKED
), running AS MATERIALIZED (
    SELECT l.execution_id, l.attempt
      FROM sched.lease l
      JOIN sched.ledger e ON e.id = l.execution_id AND e.job_name = $1
     WHERE l.attempt < e.max_attempts
       FOR UPDATE OF e SKIP LOCKED
), taken AS (
    DELETE FROM sched.ready r WHERE r.ctid = ANY (ARRAY(SELECT w.place FROM waiting w)) RETURNING r.execution_id
), recalled AS (
    DELETE FROM sched.retry r WHERE r.ctid = ANY (ARRAY(SELECT p.place FROM postponed p)) RETURNING r.execution_id
), last_attempt AS (
    UPDATE sched.ledger e SET max_attempts = r.attempt FROM running r WHERE e.id = r.execution_id
), cancelled AS (
    UPDATE sched.ledger e
       SET status = 'CANCELLED', next_retry_at = NULL, finished_at = $2, updated_at = $2
     WHERE e.id = ANY (ARRAY(SELECT t.execution_id FROM taken t UNION ALL SELECT r.execution_id FROM recalled r))
    RETURNING e.job_name, e.queue, e.owner
)
SELECT (SELECT json_agg(n)::text
          FROM (SELECT c.job_name AS job, c.queue, c.owner::oid::bigint AS owner, count(*) AS cancelled
                  FROM cancelled c
                 GROUP BY c.job_name, c.queue, c.owner) AS n) AS counted
