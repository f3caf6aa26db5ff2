-- The timers that are due and nobody else's: the latest of them, which may still be on time, and, where there are more than the
-- first $3, the earliest as well. So a backlog, however long, delays none that is due now, and goes down all the same.
-- $1 due after, $2 due at or before, $3 how many of the latest, $4 how many of the earliest
WITH latest AS MATERIALIZED (
    SELECT t.schedule_id, t.version, t.next_plan_time, t.cursor_at, t.buffered_plan, t.backlog_until, t.error_count,
           t.parked, t.last_error, t.waiting, t.tracks_runs
      FROM sched.timer t
     WHERE t.fire_at > $1 AND t.fire_at <= $2
     ORDER BY t.fire_at DESC
     LIMIT $3
       FOR UPDATE SKIP LOCKED
), earliest AS MATERIALIZED (
    SELECT t.schedule_id, t.version, t.next_plan_time, t.cursor_at, t.buffered_plan, t.backlog_until, t.error_count,
           t.parked, t.last_error, t.waiting, t.tracks_runs
      FROM sched.timer t
     WHERE t.fire_at > $1 AND t.fire_at <= $2 AND (SELECT count(*) FROM latest) = $3
       AND t.schedule_id NOT IN (SELECT l.schedule_id FROM latest l)
     ORDER BY t.fire_at
     LIMIT $4
       FOR UPDATE SKIP LOCKED
)
SELECT l.* FROM latest l
 UNION ALL
SELECT e.* FROM earliest e
