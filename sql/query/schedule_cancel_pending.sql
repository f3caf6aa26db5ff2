-- Executions of the schedule that nobody runs are cancelled; those that somebody is just claiming are left alone.
-- $1 schedule_id, $2 now
WITH waiting AS MATERIALIZED (
    SELECT r.queue, r.priority, r.plan_time, r.execution_id
      FROM sched.ready r
      JOIN sched.ledger e ON e.id = r.execution_id
     WHERE e.schedule_id = $1
       FOR UPDATE OF r SKIP LOCKED
), postponed AS MATERIALIZED (
    SELECT r.retry_at, r.execution_id
      FROM sched.retry r
      JOIN sched.ledger e ON e.id = r.execution_id
     WHERE e.schedule_id = $1
       FOR UPDATE OF r SKIP LOCKED
), taken AS (
    DELETE FROM sched.ready r
     USING waiting w
     WHERE r.queue = w.queue AND r.priority = w.priority AND r.plan_time = w.plan_time
       AND r.execution_id = w.execution_id
), recalled AS (
    DELETE FROM sched.retry r
     USING postponed p
     WHERE r.retry_at = p.retry_at AND r.execution_id = p.execution_id
)
UPDATE sched.ledger e
   SET status = 'CANCELLED', next_retry_at = NULL, finished_at = $2, updated_at = $2
 WHERE e.id IN (SELECT w.execution_id FROM waiting w UNION ALL SELECT p.execution_id FROM postponed p)
