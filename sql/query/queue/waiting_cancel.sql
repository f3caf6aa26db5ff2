-- Cancels executions that wait and are locked (waiting_find), but for those whose row of the ledger somebody has in hand: that is not waited for.
-- How many (counted: store/counted.rs), and of those that a schedule waits for which schedule waits. $1 execution_ids, $2 now
WITH known AS MATERIALIZED (
    SELECT e.id, e.queue, e.priority, e.plan_time, e.next_retry_at
      FROM sched.ledger e
     WHERE e.id = ANY ($1)
       FOR NO KEY UPDATE SKIP LOCKED
), taken AS (
    DELETE FROM sched.ready r
     USING known k
     WHERE r.queue = k.queue AND r.priority = k.priority AND r.plan_time = k.plan_time AND r.execution_id = k.id
    RETURNING k.id
), recalled AS (
    DELETE FROM sched.retry r USING known k WHERE r.retry_at = k.next_retry_at AND r.execution_id = k.id
    RETURNING k.id
), cancelled AS (
    UPDATE sched.ledger e
       SET status = 'CANCELLED', next_retry_at = NULL, finished_at = $2, updated_at = $2
      FROM (SELECT t.id FROM taken t UNION ALL SELECT r.id FROM recalled r) AS m
     WHERE e.id = m.id
    RETURNING e.id, e.job_name, e.queue, e.owner, e.schedule_id, e.awaited AND e.schedule_id IS NOT NULL AS is_awaited
)
SELECT count(*) AS count, array_agg(c.id) FILTER (WHERE c.is_awaited) AS awaited, array_agg(c.schedule_id) FILTER (WHERE c.is_awaited) AS awaited_by,
       (SELECT json_agg(n)::text
          FROM (SELECT c.job_name AS job, c.queue, c.owner::oid::bigint AS owner, count(*) AS cancelled
                  FROM cancelled c
                 GROUP BY c.job_name, c.queue, c.owner) AS n) AS counted
  FROM cancelled c
