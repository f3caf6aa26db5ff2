-- $1 schedule_id
DELETE FROM sched.schedule WHERE schedule_id = $1
