-- Retries whose time has come become claimable; the queues that got some, and before what in each of them. Those whose time has come since $6 are not
-- kept waiting by those that have waited for longer, however many: they are at most half of all. $1 now, $2 limit, $3 caller, before the place of
-- $4 retry_at and $5 execution_id nothing waits, or others have it in hand
WITH fresh AS MATERIALIZED (
    SELECT r.ctid AS place FROM sched.retry r WHERE r.retry_at > $6 AND r.retry_at <= $1 AND pg_has_role($3, r.owner, 'USAGE')
     ORDER BY r.retry_at, r.execution_id LIMIT ($2 + 1) / 2 FOR UPDATE SKIP LOCKED
), due AS MATERIALIZED (
    SELECT r.ctid AS place FROM sched.retry r WHERE (r.retry_at, r.execution_id) >= ($4, $5) AND r.retry_at <= $1 AND pg_has_role($3, r.owner, 'USAGE')
     ORDER BY r.retry_at, r.execution_id LIMIT $2 - (SELECT count(*) FROM fresh) FOR UPDATE SKIP LOCKED
), gone AS (
    DELETE FROM sched.retry r WHERE r.ctid = ANY (ARRAY(SELECT f.place FROM fresh f UNION ALL SELECT d.place FROM due d))
    RETURNING r.*
), claimable AS (
    INSERT INTO sched.ready (queue, priority, plan_time, execution_id, owner)
    SELECT g.queue, g.priority, g.plan_time, g.execution_id, g.owner FROM gone g
)
SELECT COALESCE(sum(q.count), 0)::bigint AS count, array_agg(q.queue) AS queues, array_agg(q.priority) AS priorities,
       array_agg(q.plan_time) AS plan_times
  FROM (SELECT count(*), g.queue, max(g.priority) AS priority, min(g.plan_time) AS plan_time FROM gone g GROUP BY g.queue) AS q
