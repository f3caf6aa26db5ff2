-- A schedule as it stands, locked against other edits (a dispatcher never locks it). $1 schedule_name
SELECT s.schedule_id, s.clock, s.time_zone, s.job_name, s.payload, s.scope_kind, s.scope_id, s.catch_up,
       s.catch_up_window, s.max_plans_per_tick, s.rearm, s.overlap, s.delay, s.jitter, s.starts_at, s.ends_at,
       s.ownership, s.enabled, s.max_lateness, s.max_duration, s.expect_success_within, s.alert_job, s.created_at, s.sql_pair, s.group_name, s.default_scope_id
  FROM sched.schedule s
 WHERE s.schedule_name = $1
   FOR UPDATE
