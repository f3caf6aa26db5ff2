-- Everything that decides what these schedules do next. Read after their timers were locked, in a statement of its own, so
-- that it sees what the last holder of the lock did. (Of the payload only the size is read.) $1 schedule_ids
SELECT i.schedule_id,
       s.version, s.clock, s.time_zone, s.catch_up, s.catch_up_window, s.max_plans_per_tick, s.rearm, s.overlap, s.delay,
       s.jitter, s.starts_at, s.ends_at, s.ownership, s.enabled, s.created_at, s.baseline_at, s.defined_at,
       s.job_name, s.payload, s.key, s.previous_keys, s.max_lateness, s.max_duration, s.expect_success_within, j.owner::oid AS job_owner,
       COALESCE(s.rearm <> 'on_dispatch' OR s.overlap <> 'allow', false)
       AND EXISTS (SELECT FROM sched.awaited a WHERE a.schedule_id = i.schedule_id) AS busy
  FROM unnest($1) AS i (schedule_id)
  LEFT JOIN sched.schedule s ON s.schedule_id = i.schedule_id
  LEFT JOIN sched.job j ON j.job_name = s.job_name
