-- Where no results are kept there is only when each task was sent last. Microseconds since 1970, as text.
SELECT t.id::text AS id, pg_catalog.trunc(EXTRACT(epoch FROM t.last_run_at) * 1000000)::text AS began, NULL::text AS ended
  FROM ONLY {schema}.django_celery_beat_periodictask AS t
 WHERE t.last_run_at >= pg_catalog.to_timestamp($1) AND t.last_run_at < pg_catalog.to_timestamp($2)
 ORDER BY t.id
