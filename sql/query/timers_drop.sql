-- $1 schedule_ids
WITH forgotten AS (
    DELETE FROM sched.awaited a WHERE a.schedule_id = ANY ($1)
)
DELETE FROM sched.timer t WHERE t.schedule_id = ANY ($1)
