-- Of one queue, the retries that are due and that a claim of $2 executions might want become claimable. No others: they stay locked until the
-- claimer's transaction ends, however long it takes, and nobody else could have them. $1 now, $2 limit, $3 queue, $4 caller
WITH due AS MATERIALIZED (
    SELECT r.ctid AS place
      FROM sched.retry r
     WHERE r.retry_at <= $1 AND r.queue = $3 AND pg_has_role($4, r.owner, 'USAGE')
     ORDER BY r.priority DESC, r.plan_time, r.execution_id
     LIMIT $2
       FOR UPDATE SKIP LOCKED
), gone AS (
    DELETE FROM sched.retry r WHERE r.ctid = ANY (ARRAY(SELECT d.place FROM due d))
    RETURNING r.*
)
INSERT INTO sched.ready (queue, priority, plan_time, execution_id, owner)
SELECT g.queue, g.priority, g.plan_time, g.execution_id, g.owner FROM gone g
RETURNING priority, plan_time, execution_id
