-- What the next look is to know, and no planned look but that one. $1 schedule_ids, $2 versions, $3 seen plan times, $4 last successes,
-- $5 next looks (NULL = none), $6 schedule_ids, $7 a run of each that has not ended
WITH left_open AS MATERIALIZED (
    SELECT u.schedule_id, array_agg(u.execution_id) AS execution_ids FROM unnest($6, $7) AS u (schedule_id, execution_id) GROUP BY u.schedule_id
), looked AS MATERIALIZED (
    SELECT d.*, COALESCE(o.execution_ids, '{}') AS unsettled
      FROM unnest($1, $2, $3, $4, $5) AS d (schedule_id, version, seen_plan, last_success_at, due_at)
      LEFT JOIN left_open o ON o.schedule_id = d.schedule_id
), gone AS (
    DELETE FROM sched.alert_watch w
     USING sched.alert_state b
     WHERE b.schedule_id = ANY ($1) AND w.due_at = b.due_at AND w.schedule_id = b.schedule_id AND w.due_at > '-infinity'
), planned AS (
    INSERT INTO sched.alert_watch (due_at, schedule_id) SELECT l.due_at, l.schedule_id FROM looked l WHERE l.due_at IS NOT NULL
)
INSERT INTO sched.alert_state AS s (schedule_id, version, seen_plan, unsettled, last_success_at, due_at)
SELECT l.schedule_id, l.version, l.seen_plan, l.unsettled, l.last_success_at, l.due_at FROM looked l
    ON CONFLICT (schedule_id) DO UPDATE
   SET version = excluded.version, seen_plan = excluded.seen_plan, unsettled = excluded.unsettled, last_success_at = excluded.last_success_at,
       due_at = excluded.due_at
