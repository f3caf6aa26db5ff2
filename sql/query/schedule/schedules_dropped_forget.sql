-- $1 schedule_ids
DELETE FROM sched.schedule_dropped d WHERE d.schedule_id = ANY ($1)
