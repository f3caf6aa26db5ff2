-- Makes a group where there is none; waits for others who make it. $1 group_name, $2 owner
INSERT INTO sched.schedule_group (group_name, owner) VALUES ($1, $2) ON CONFLICT DO NOTHING
