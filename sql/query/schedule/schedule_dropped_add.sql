-- $1 schedule_id, $2 its scopes
INSERT INTO sched.schedule_dropped (schedule_id, keys) VALUES ($1, $2)
