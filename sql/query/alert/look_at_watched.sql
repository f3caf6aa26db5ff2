-- The same of those schedules that ask for alerts, or have open ones, by what earlier looks have left. $1 schedule_ids
INSERT INTO sched.alert_watch (due_at, schedule_id)
SELECT timestamptz '-infinity', w.schedule_id FROM sched.alert_state w WHERE w.schedule_id = ANY ($1)
 UNION
SELECT timestamptz '-infinity', a.schedule_id FROM sched.alert a WHERE a.schedule_id = ANY ($1) AND a.resolved_at IS NULL
