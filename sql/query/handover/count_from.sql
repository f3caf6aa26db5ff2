-- Only plan times after a baseline are a schedule's own: an interval that counts from runs counts from there. $1 schedule_id, $2 time
UPDATE sched.schedule SET baseline_at = $2 WHERE schedule_id = $1 AND baseline_at > $2
