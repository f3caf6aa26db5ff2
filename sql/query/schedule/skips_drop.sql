-- What was remembered of schedules that were dropped. $1 schedule_ids
WITH definitions AS (
    DELETE FROM sched.schedule_definition d WHERE d.schedule_id = ANY ($1)
), state AS (
    DELETE FROM sched.timer_state ts WHERE ts.schedule_id = ANY ($1)
)
DELETE FROM sched.skip k WHERE k.schedule_id = ANY ($1)
