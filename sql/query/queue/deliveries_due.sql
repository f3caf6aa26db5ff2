-- Deliveries whose time has come stand beside those that are ready. $1 now, $2 limit, $3 what the names of their queues begin with
WITH due AS MATERIALIZED (
    SELECT r.* FROM sched.retry r WHERE r.retry_at <= $1 AND starts_with(r.queue, $3)
     ORDER BY r.retry_at LIMIT $2 FOR UPDATE SKIP LOCKED
), gone AS (
    DELETE FROM sched.retry r USING due d WHERE r.retry_at = d.retry_at AND r.execution_id = d.execution_id
)
INSERT INTO sched.ready (queue, priority, plan_time, execution_id, owner)
SELECT d.queue, d.priority, d.plan_time, d.execution_id, d.owner FROM due d
RETURNING queue, priority, plan_time, execution_id
