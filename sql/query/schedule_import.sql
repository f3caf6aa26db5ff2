-- Schedules of a crontab; a name that exists stays as it is. $1 names, $2 clocks, $3 time zones, $4 payloads, $5 job_name, $6 now
INSERT INTO sched.schedule (schedule_name, clock, time_zone, job_name, payload, scope_kind, scope_id, catch_up,
                            max_plans_per_tick, rearm, overlap, delay, jitter, ownership, enabled,
                            created_at, baseline_at, updated_at)
SELECT d.name, d.clock, d.time_zone, $5, d.payload::jsonb, 'schedule', d.name, 'latest_only',
       100, 'on_dispatch', 'allow', '0', '0', 'owned', true, $6, $6, $6
  FROM unnest($1, $2, $3, $4) AS d (name, clock, time_zone, payload)
    ON CONFLICT (schedule_name) DO NOTHING
