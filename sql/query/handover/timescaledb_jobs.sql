-- Its jobs, whatever columns their version has; times are microseconds since 1970. What is TimescaleDB's own has no command.
SELECT j.id::text AS id, j.application_name::text AS name, (EXTRACT(year FROM j.schedule_interval) * 12 + EXTRACT(month FROM j.schedule_interval))::bigint::text AS months,
       EXTRACT(day FROM j.schedule_interval)::bigint::text AS days,
       (EXTRACT(hour FROM j.schedule_interval) * 3600000000 + EXTRACT(minute FROM j.schedule_interval) * 60000000
        + EXTRACT(microseconds FROM j.schedule_interval))::bigint::text AS micros,
       j.max_runtime::text AS max_runtime, j.max_retries::text AS max_retries, j.retry_period::text AS retry_period,
       j.proc_schema::text AS proc_schema, j.proc_name::text AS proc_name, j.scheduled::text AS enabled,
       (SELECT r.rolname
          FROM pg_roles AS r
         WHERE CASE WHEN pg_typeof(j.owner)::oid = 'regrole'::regtype THEN r.oid::regrole::text = j.owner::text ELSE r.rolname = j.owner::text END) AS role,
       j.owner::text AS owner, c.json ->> 'fixed_schedule' AS fixed, c.json ->> 'timezone' AS time_zone, c.json ->> 'config' AS config,
       CASE WHEN isfinite(c.initial_start) THEN (EXTRACT(epoch FROM c.initial_start) * 1000000)::bigint::text END AS starts,
       p.kind, format(CASE p.kind WHEN 'p' THEN 'CALL %I.%I(%s, %s::pg_catalog.jsonb)' ELSE 'SELECT %I.%I(%s, %s::pg_catalog.jsonb)' END,
                      j.proc_schema, j.proc_name, j.id, quote_nullable(NULLIF((c.json -> 'config')::text, 'null'))) AS command
  FROM ONLY {schema}.bgw_job AS j
 CROSS JOIN LATERAL (SELECT to_jsonb(j) AS json, (to_jsonb(j) ->> 'initial_start')::timestamptz AS initial_start) AS c
  LEFT JOIN LATERAL (SELECT f.prokind::text AS kind
                       FROM pg_proc AS f
                       JOIN pg_namespace AS n ON n.oid = f.pronamespace
                      WHERE n.nspname = j.proc_schema AND f.proname = j.proc_name
                        AND f.proargtypes::text = ('int4'::regtype::oid || ' ' || 'jsonb'::regtype::oid)) AS p ON true
 ORDER BY j.id
