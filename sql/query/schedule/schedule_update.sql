-- $1 schedule_id, $2 schedule_name, $3 clock, $4 time_zone, $5 job_name, $6 payload, $7 scope_kind, $8 scope_id,
-- $9 catch_up, $10 catch_up_window, $11 max_plans_per_tick, $12 rearm, $13 overlap, $14 delay, $15 jitter,
-- $16 starts_at, $17 ends_at, $18 ownership, $19 enabled, $20 max_lateness, $21 max_duration, $22 expect_success_within,
-- $23 alert_job
UPDATE sched.schedule
   SET schedule_name = $2, clock = $3, time_zone = $4, job_name = $5, payload = $6, scope_kind = $7, scope_id = $8,
       catch_up = $9, catch_up_window = $10, max_plans_per_tick = $11, rearm = $12, overlap = $13, delay = $14,
       jitter = $15, starts_at = $16, ends_at = $17, ownership = $18, enabled = $19, max_lateness = $20, max_duration = $21,
       expect_success_within = $22, alert_job = $23
 WHERE schedule_id = $1
