-- The timers only: what is awaited stays, or nobody would report the end of a run that goes on. $1 schedule_ids
DELETE FROM sched.timer t WHERE t.schedule_id = ANY ($1)
