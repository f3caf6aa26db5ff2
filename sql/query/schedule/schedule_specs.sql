-- The elements of a JSON array of schedules as rows, in order; what an element leaves out is NULL.
-- $1 specs, $2 first place (1-based), $3 last
SELECT r.schedule_name, r.clock, r.job_name, r.time_zone, r.payload, r.scope_kind, r.scope_id, r.catch_up,
       r.catch_up_window, r.max_plans_per_tick, r.rearm, r.overlap, r.delay, r.jitter, r.starts_at, r.ends_at,
       r.ownership, r.enabled, r.max_lateness, r.max_duration, r.expect_success_within, r.alert_job,
       r.was, r.adopt, r.command, r.run_timeout, r.max_attempts, r.retry_backoff, r.own_transactions, r.settings, r.priority
  FROM jsonb_array_elements($1) WITH ORDINALITY AS e (spec, place)
 CROSS JOIN LATERAL jsonb_to_record(e.spec)
    AS r (schedule_name text, clock text, job_name text, time_zone text, payload jsonb, scope_kind text, scope_id text,
          catch_up text, catch_up_window interval, max_plans_per_tick integer, rearm text, overlap text,
          delay interval, jitter interval, starts_at timestamptz, ends_at timestamptz, ownership text, enabled boolean,
          max_lateness interval, max_duration interval, expect_success_within interval, alert_job text,
          was text, adopt boolean, command text, run_timeout interval, max_attempts integer, retry_backoff interval[],
          own_transactions boolean, settings jsonb, priority integer)
 WHERE e.place BETWEEN $2 AND $3
 ORDER BY e.place
