-- These timers, as far as they are due and nobody else's. $1 schedule_ids, $2 due at or before
SELECT t.schedule_id, t.version, t.next_plan_time, t.cursor_at, t.buffered_plan, t.backlog_until, t.error_count,
       t.parked, t.last_error, t.waiting, t.tracks_runs
  FROM sched.timer t
 WHERE t.schedule_id = ANY ($1) AND t.fire_at <= $2
   FOR UPDATE SKIP LOCKED
