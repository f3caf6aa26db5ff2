-- When each was sent last, in microseconds since 1970. $1 source ids
SELECT t.id::text AS id, pg_catalog.trunc(EXTRACT(epoch FROM t.last_run_at) * 1000000)::text AS began, NULL::text AS ended
  FROM ONLY {schema}.django_celery_beat_periodictask AS t
 WHERE t.id::text = ANY ($1) AND t.last_run_at IS NOT NULL
