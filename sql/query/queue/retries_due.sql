-- Retries whose time has come become claimable; the queues that got some, and before what in each of them.
-- $1 now, $2 limit, $3 caller, $4 up to this time nothing waits, or others have it in hand
WITH due AS MATERIALIZED (
    SELECT r.* FROM sched.retry r WHERE r.retry_at > $4 AND r.retry_at <= $1 AND pg_has_role($3, r.owner, 'USAGE')
     ORDER BY r.retry_at LIMIT $2 FOR UPDATE SKIP LOCKED
), gone AS (
    DELETE FROM sched.retry r USING due d WHERE r.retry_at = d.retry_at AND r.execution_id = d.execution_id
), claimable AS (
    INSERT INTO sched.ready (queue, priority, plan_time, execution_id, owner)
    SELECT d.queue, d.priority, d.plan_time, d.execution_id, d.owner FROM due d
)
SELECT COALESCE(sum(q.count), 0)::bigint AS count, array_agg(q.queue) AS queues, array_agg(q.priority) AS priorities,
       array_agg(q.plan_time) AS plan_times
  FROM (SELECT count(*), d.queue, max(d.priority) AS priority, min(d.plan_time) AS plan_time FROM due d GROUP BY d.queue) AS q
