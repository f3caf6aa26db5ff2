-- The timers of these schedules: what timers_due has of them, and whether their runs are awaited. $1 schedule_ids
SELECT t.schedule_id, t.version, t.next_plan_time, t.cursor_at, t.buffered_plan, t.backlog_until, t.error_count,
       CASE WHEN t.parked THEN COALESCE(t.last_error, '') END AS parked_for, t.waiting, t.awaits
  FROM sched.timer t
 WHERE t.schedule_id = ANY ($1)
