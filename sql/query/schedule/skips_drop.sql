-- What was remembered of schedules that were dropped. $1 schedule_ids
WITH past AS (
    DELETE FROM sched.schedule_past p WHERE p.schedule_id = ANY ($1)
), memory AS (
    DELETE FROM sched.timer_memory m WHERE m.schedule_id = ANY ($1)
)
DELETE FROM sched.skip k WHERE k.schedule_id = ANY ($1)
