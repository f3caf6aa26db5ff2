-- $1 schedule_ids
WITH gone AS MATERIALIZED (
    -- One that a runner's open transaction is just ending is left to it.
    SELECT a.schedule_id, a.execution_id FROM sched.awaited a WHERE a.schedule_id = ANY ($1) FOR UPDATE SKIP LOCKED
), forgotten AS (
    DELETE FROM sched.awaited a USING gone g WHERE a.schedule_id = g.schedule_id AND a.execution_id = g.execution_id
)
DELETE FROM sched.timer t WHERE t.schedule_id = ANY ($1)
