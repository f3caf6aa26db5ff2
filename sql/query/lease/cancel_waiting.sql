-- An execution that nobody runs ends as CANCELLED. No row where it is not waiting, or somebody is just claiming it. One is always in
-- sched.ready, sched.retry or sched.lease; what our snapshot has in none of them has lost its row there (a partial restore), and nobody can claim it.
-- $1 execution_id, $2 now
WITH known AS MATERIALIZED (
    SELECT e.id, e.queue, e.priority, e.plan_time, e.next_retry_at FROM sched.ledger e WHERE e.id = $1
), waiting AS (
    DELETE FROM sched.ready r
     USING known k
     WHERE r.queue = k.queue AND r.priority = k.priority AND r.plan_time = k.plan_time AND r.execution_id = k.id
    RETURNING r.execution_id
), postponed AS (
    DELETE FROM sched.retry r
     USING known k
     WHERE r.retry_at = k.next_retry_at AND r.execution_id = k.id
    RETURNING r.execution_id
), lost AS (
    SELECT k.id
      FROM known k
     WHERE NOT EXISTS (SELECT FROM sched.lease l WHERE l.execution_id = k.id)
       AND NOT EXISTS (SELECT
                         FROM sched.ready r
                        WHERE r.queue = k.queue AND r.priority = k.priority AND r.plan_time = k.plan_time AND r.execution_id = k.id)
       AND NOT EXISTS (SELECT FROM sched.retry r WHERE r.retry_at = k.next_retry_at AND r.execution_id = k.id)
)
UPDATE sched.ledger e
   SET status = 'CANCELLED', next_retry_at = NULL, finished_at = $2, updated_at = $2
 WHERE e.id = $1
   AND (e.status = 'PENDING' OR (e.status = 'FAILED' AND e.next_retry_at IS NOT NULL))
   AND e.id IN (SELECT w.execution_id FROM waiting w UNION ALL SELECT p.execution_id FROM postponed p UNION ALL SELECT o.id FROM lost o)
RETURNING e.awaited, e.schedule_id, e.job_name, e.queue, e.owner::oid AS owner
