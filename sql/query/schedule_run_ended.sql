-- A run that its schedule waited for has ended. $1 schedule_id, $2 execution_id, $3 when
WITH gone AS (
    DELETE FROM sched.awaited a WHERE a.schedule_id = $1 AND a.execution_id = $2 RETURNING a.schedule_id
)
INSERT INTO sched.schedule_change (schedule_id, terminal_at) SELECT g.schedule_id, $3 FROM gone g
