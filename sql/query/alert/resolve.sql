-- Resolves the open alert of a schedule and kind. No row where somebody's open transaction has it in hand. $1 schedule_id, $2 kind, $3 now
WITH free AS MATERIALIZED (
    SELECT a.alert_id FROM sched.alert a WHERE a.schedule_id = $1 AND a.kind = $2 AND a.resolved_at IS NULL FOR NO KEY UPDATE SKIP LOCKED
)
UPDATE sched.alert a SET resolved_at = $3 FROM free f WHERE a.alert_id = f.alert_id RETURNING a.alert_id
