-- $1 schedule_ids
DELETE FROM sched.timer t WHERE t.schedule_id = ANY ($1)
