-- The tasks with their schedules. Times are microseconds since 1970, as text, whatever the session shows times like.
SELECT t.id::text AS id, t.name::text AS name, t.task::text AS task, t.args::text AS args, t.kwargs::text AS kwargs, t.queue::text AS queue,
       t.exchange::text AS exchange, t.routing_key::text AS routing_key, pg_catalog.to_jsonb(t) ->> 'headers' AS headers,
       pg_catalog.to_jsonb(t) ->> 'priority' AS priority, pg_catalog.to_jsonb(t) ->> 'expire_seconds' AS expire_seconds,
       pg_catalog.trunc(EXTRACT(epoch FROM t.expires) * 1000000)::text AS expires,
       pg_catalog.to_char(t.expires AT TIME ZONE 'UTC', 'YYYY-MM-DD"T"HH24:MI:SS.US"+00:00"') AS expires_text,
       t.one_off::text AS one_off, t.enabled::text AS enabled, t.total_run_count::text AS total_run_count,
       pg_catalog.trunc(EXTRACT(epoch FROM t.start_time) * 1000000)::text AS start_time,
       pg_catalog.trunc(EXTRACT(epoch FROM t.last_run_at) * 1000000)::text AS last_run_at,
       pg_catalog.trunc(EXTRACT(epoch FROM t.date_changed) * 1000000)::text AS date_changed,
       t.interval_id::text AS interval_id, i.every::text AS every, i.period::text AS period,
       t.crontab_id::text AS crontab_id, c.minute::text AS minute, c.hour::text AS hour, c.day_of_month::text AS day_of_month,
       c.month_of_year::text AS month_of_year, c.day_of_week::text AS day_of_week, c.timezone::text AS time_zone,
       t.solar_id::text AS solar_id, t.clocked_id::text AS clocked_id,
       pg_catalog.trunc(EXTRACT(epoch FROM k.clocked_time) * 1000000)::text AS clocked_time
  FROM ONLY {schema}.django_celery_beat_periodictask AS t
  LEFT JOIN ONLY {schema}.django_celery_beat_intervalschedule AS i ON i.id = t.interval_id
  LEFT JOIN ONLY {schema}.django_celery_beat_crontabschedule AS c ON c.id = t.crontab_id
  LEFT JOIN ONLY {schema}.django_celery_beat_clockedschedule AS k ON k.id = t.clocked_id
 ORDER BY t.id
