-- An execution that nobody runs ends as CANCELLED. No row where it is not waiting, or another transaction has it in hand: that one is not
-- waited for. One is always in sched.ready, sched.retry or sched.lease; what our snapshot has in none of them has lost its row there (a partial
-- restore), and nobody can claim it.
-- $1 execution_id, $2 now
WITH known AS MATERIALIZED (
    SELECT e.id, e.queue, e.priority, e.plan_time, e.next_retry_at
      FROM sched.ledger e
     WHERE e.id = $1 AND (e.status = 'PENDING' OR (e.status = 'FAILED' AND e.next_retry_at IS NOT NULL))
), in_ready AS MATERIALIZED (
    SELECT k.id
      FROM known k
      JOIN sched.ready r ON r.queue = k.queue AND r.priority = k.priority AND r.plan_time = k.plan_time AND r.execution_id = k.id
       FOR UPDATE OF r SKIP LOCKED
), in_retry AS MATERIALIZED (
    SELECT k.id
      FROM known k
      JOIN sched.retry r ON r.retry_at = k.next_retry_at AND r.execution_id = k.id
       FOR UPDATE OF r SKIP LOCKED
), lost AS MATERIALIZED (
    SELECT k.id
      FROM known k
     WHERE NOT EXISTS (SELECT FROM sched.lease l WHERE l.execution_id = k.id)
       AND NOT EXISTS (SELECT
                         FROM sched.ready r
                        WHERE r.queue = k.queue AND r.priority = k.priority AND r.plan_time = k.plan_time AND r.execution_id = k.id)
       AND NOT EXISTS (SELECT FROM sched.retry r WHERE r.retry_at = k.next_retry_at AND r.execution_id = k.id)
), free AS MATERIALIZED (
    SELECT e.id, e.queue, e.priority, e.plan_time, e.next_retry_at
      FROM sched.ledger e
     WHERE e.id IN (SELECT r.id FROM in_ready r UNION ALL SELECT r.id FROM in_retry r UNION ALL SELECT o.id FROM lost o)
       AND (e.status = 'PENDING' OR (e.status = 'FAILED' AND e.next_retry_at IS NOT NULL))
       FOR NO KEY UPDATE OF e SKIP LOCKED
), waiting AS (
    DELETE FROM sched.ready r
     USING free f
     WHERE r.queue = f.queue AND r.priority = f.priority AND r.plan_time = f.plan_time AND r.execution_id = f.id
), postponed AS (
    DELETE FROM sched.retry r USING free f WHERE r.retry_at = f.next_retry_at AND r.execution_id = f.id
)
UPDATE sched.ledger e
   SET status = 'CANCELLED', next_retry_at = NULL, finished_at = $2, updated_at = $2
  FROM free f
 WHERE e.id = f.id
RETURNING e.awaited, e.schedule_id, e.job_name, e.queue, e.owner::oid AS owner
