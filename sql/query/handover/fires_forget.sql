-- $1 schedule_id, $2 those before this time
DELETE FROM sched.reported_fire WHERE schedule_id = $1 AND plan_time < $2
