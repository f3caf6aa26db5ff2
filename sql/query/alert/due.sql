-- Takes what is to be looked at now: what came up by itself, and then what was planned after $1, which is all of it that is left. Only one
-- process looks in a database, but others insert. $1 looked until, $2 now, $3 limit
WITH news AS MATERIALIZED (
    SELECT w.due_at, w.schedule_id, w.watch_id FROM sched.alert_watch w WHERE w.due_at = '-infinity' ORDER BY w.due_at, w.schedule_id, w.watch_id LIMIT $3
), planned AS MATERIALIZED (
    SELECT w.due_at, w.schedule_id, w.watch_id
      FROM sched.alert_watch w
     WHERE w.due_at > $1 AND w.due_at <= $2
     ORDER BY w.due_at, w.schedule_id, w.watch_id
     LIMIT $3 - (SELECT count(*) FROM news)
), picked AS MATERIALIZED (
    SELECT * FROM news UNION ALL SELECT * FROM planned
)
DELETE FROM sched.alert_watch w
 USING picked p
 WHERE w.due_at = p.due_at AND w.schedule_id = p.schedule_id AND w.watch_id = p.watch_id
RETURNING w.schedule_id, w.execution_id, w.failed
