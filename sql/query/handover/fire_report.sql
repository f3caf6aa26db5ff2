-- $1 schedule_id, $2 plan_time, $3 fired_at
INSERT INTO sched.reported_fire (schedule_id, plan_time, fired_at) VALUES ($1, $2, $3) ON CONFLICT (schedule_id, plan_time) DO NOTHING
