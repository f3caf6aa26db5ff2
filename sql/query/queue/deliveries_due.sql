-- Deliveries whose time has come stand beside those that are ready. $1 now, $2 limit, $3 what the names of their queues begin with,
-- before the place of $4 retry_at and $5 execution_id nothing waits
WITH due AS MATERIALIZED (
    SELECT r.ctid AS place FROM sched.retry r WHERE (r.retry_at, r.execution_id) >= ($4, $5) AND r.retry_at <= $1 AND starts_with(r.queue, $3)
     ORDER BY r.retry_at, r.execution_id LIMIT $2 FOR UPDATE SKIP LOCKED
), gone AS (
    DELETE FROM sched.retry r WHERE r.ctid = ANY (ARRAY(SELECT d.place FROM due d))
    RETURNING r.*
)
INSERT INTO sched.ready (queue, priority, plan_time, execution_id, owner)
SELECT g.queue, g.priority, g.plan_time, g.execution_id, g.owner FROM gone g
RETURNING queue, priority, plan_time, execution_id
