-- Schedules, one or many: one statement, and so one run of the trigger. A name that is taken is left out of the result.
-- Inserted in the order of their names, so that two sessions never wait for each other in a circle.
-- $1 .. $22 the columns, $23 now
INSERT INTO sched.schedule (schedule_name, clock, time_zone, job_name, payload, scope_kind, scope_id, catch_up,
                            catch_up_window, max_plans_per_tick, rearm, overlap, delay, jitter, starts_at, ends_at,
                            ownership, enabled, max_lateness, max_duration, expect_success_within, alert_job,
                            created_at, baseline_at, updated_at, defined_at)
SELECT d.*, $23, $23, $23, $23
  FROM unnest($1, $2, $3, $4, $5, $6, $7, $8, $9, $10, $11, $12, $13, $14, $15, $16, $17, $18, $19, $20, $21, $22) AS d (schedule_name)
 ORDER BY d.schedule_name COLLATE "C"
    ON CONFLICT (schedule_name) DO NOTHING
RETURNING schedule_name, schedule_id
