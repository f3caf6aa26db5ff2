-- Forgets alerts that were resolved before $1; how many there were of the $2 that are looked at. What somebody has in hand is left to the next walk.
WITH old AS MATERIALIZED (
    SELECT a.alert_id FROM sched.alert a WHERE a.resolved_at < $1 ORDER BY a.resolved_at LIMIT $2 FOR UPDATE SKIP LOCKED
)
DELETE FROM sched.alert a USING old o WHERE a.alert_id = o.alert_id RETURNING a.alert_id
