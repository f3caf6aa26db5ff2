-- The timers of these schedules, as timers_due has them. $1 schedule_ids
SELECT t.schedule_id, t.version, t.next_plan_time, t.cursor_at, t.buffered_plan, t.backlog_until, t.error_count,
       t.parked, t.last_error, t.waiting, t.tracks_runs
  FROM sched.timer t
 WHERE t.schedule_id = ANY ($1)
