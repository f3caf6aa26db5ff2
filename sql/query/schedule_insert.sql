-- No row where the name is taken.
-- $1 schedule_name, $2 clock, $3 time_zone, $4 job_name, $5 payload, $6 scope_kind, $7 scope_id, $8 catch_up,
-- $9 catch_up_window, $10 max_plans_per_tick, $11 rearm, $12 overlap, $13 delay, $14 jitter, $15 starts_at, $16 ends_at,
-- $17 ownership, $18 enabled, $19 now
INSERT INTO sched.schedule (schedule_name, clock, time_zone, job_name, payload, scope_kind, scope_id, catch_up,
                            catch_up_window, max_plans_per_tick, rearm, overlap, delay, jitter, starts_at, ends_at,
                            ownership, enabled, created_at, baseline_at, updated_at)
VALUES ($1, $2, $3, $4, $5, $6, $7, $8, $9, $10, $11, $12, $13, $14, $15, $16, $17, $18, $19, $19, $19)
    ON CONFLICT (schedule_name) DO NOTHING
RETURNING schedule_id
