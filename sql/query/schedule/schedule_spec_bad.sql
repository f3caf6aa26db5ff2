-- One key of one element of a JSON array, read as its type; raises where it cannot be. $1 specs, $2 place (1-based), $3 key
SELECT CASE WHEN $3 IN ('catch_up_window', 'delay', 'jitter', 'max_lateness', 'max_duration', 'expect_success_within', 'run_timeout') THEN (v.value::interval)::text
            WHEN $3 IN ('starts_at', 'ends_at') THEN (v.value::timestamptz)::text
            WHEN $3 IN ('max_plans_per_tick', 'max_attempts', 'priority') THEN (v.value::integer)::text
            WHEN $3 = 'retry_backoff' THEN (SELECT r.retry_backoff FROM jsonb_to_record($1 -> ($2 - 1)) AS r (retry_backoff interval[]))::text
            WHEN $3 IN ('enabled', 'adopt', 'own_transactions') THEN (v.value::boolean)::text END
  FROM (SELECT ($1 -> ($2 - 1)) ->> $3 AS value) AS v
