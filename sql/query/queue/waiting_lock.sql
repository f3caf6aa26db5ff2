-- Locks those of these executions that wait and that nobody has in hand, to the end of the transaction: until then nobody claims them. Not what a
-- dropped schedule has left or what is to be cancelled. Where each stands; a time where it waits for that. $1 execution_ids
WITH known AS MATERIALIZED (
    SELECT e.id, e.queue, e.priority, e.plan_time, e.next_retry_at, e.owner::oid AS owner, e.key
      FROM sched.ledger e
     WHERE e.id = ANY ($1)
       AND (e.status = 'PENDING' OR (e.status = 'FAILED' AND e.next_retry_at IS NOT NULL))
       AND (SELECT d.schedule_id FROM sched.schedule_dropped d WHERE d.schedule_id = e.schedule_id) IS NULL
       AND (SELECT c.execution_id FROM sched.cancel_request c WHERE c.execution_id = e.id LIMIT 1) IS NULL
), waiting AS MATERIALIZED (
    SELECT k.id, k.key, k.owner, k.queue, NULL::timestamptz AS retry_at
      FROM known k
      JOIN sched.ready r ON r.queue = k.queue AND r.priority = k.priority AND r.plan_time = k.plan_time AND r.execution_id = k.id
       FOR UPDATE OF r SKIP LOCKED
), postponed AS MATERIALIZED (
    SELECT k.id, k.key, k.owner, k.queue, r.retry_at
      FROM known k
      JOIN sched.retry r ON r.retry_at = k.next_retry_at AND r.execution_id = k.id
       FOR UPDATE OF r SKIP LOCKED
)
SELECT * FROM waiting
UNION ALL
SELECT * FROM postponed
