-- A run that its schedule waited for has ended. Where a dispatcher has the row, it is because the schedule was dropped.
-- The change that tells of it.
-- $1 schedule_id, $2 execution_id, $3 when
WITH free AS MATERIALIZED (
    SELECT a.schedule_id, a.execution_id
      FROM sched.awaited a
     WHERE a.schedule_id = $1 AND a.execution_id = $2
       FOR UPDATE SKIP LOCKED
), gone AS (
    DELETE FROM sched.awaited a USING free f
     WHERE a.schedule_id = f.schedule_id AND a.execution_id = f.execution_id
    RETURNING a.schedule_id
)
INSERT INTO sched.schedule_change (schedule_id, terminal_at) SELECT g.schedule_id, $3 FROM gone g
RETURNING change_id
