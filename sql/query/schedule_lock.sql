-- A schedule as it stands, locked against other edits (a dispatcher never locks it). $1 schedule_name
SELECT s.schedule_id, s.clock, s.time_zone, s.job_name, s.payload, s.scope_kind, s.scope_id, s.catch_up,
       s.catch_up_window, s.max_plans_per_tick, s.rearm, s.overlap, s.delay, s.jitter, s.starts_at, s.ends_at,
       s.ownership, s.enabled, j.owner::oid, s.created_at
  FROM sched.schedule s
  LEFT JOIN sched.job j ON j.job_name = s.job_name
 WHERE s.schedule_name = $1
   FOR UPDATE OF s
