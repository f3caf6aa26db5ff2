-- Results say by which task they were asked for, and since when a worker has them. The last that was sent may have none yet.
-- Microseconds since 1970, as text.
WITH results AS (
    SELECT t.id, COALESCE((pg_catalog.to_jsonb(r) ->> 'date_started')::timestamptz, r.date_created) AS began,
           CASE WHEN r.status IN ('SUCCESS', 'FAILURE', 'REVOKED') THEN r.date_done END AS ended
      FROM ONLY {schema}.django_celery_beat_periodictask AS t
      JOIN ONLY {schema}.django_celery_results_taskresult AS r ON r.periodic_task_name::text = t.name::text
), runs AS (
    SELECT r.id, r.began, r.ended FROM results AS r
    UNION ALL
    SELECT t.id, t.last_run_at, NULL FROM ONLY {schema}.django_celery_beat_periodictask AS t
     WHERE NOT EXISTS (SELECT FROM results AS r WHERE r.id = t.id AND r.began >= t.last_run_at)
)
SELECT r.id::text AS id, pg_catalog.trunc(EXTRACT(epoch FROM r.began) * 1000000)::text AS began,
       pg_catalog.trunc(EXTRACT(epoch FROM r.ended) * 1000000)::text AS ended
  FROM runs AS r
 WHERE r.began >= pg_catalog.to_timestamp($1) AND r.began < pg_catalog.to_timestamp($2)
 ORDER BY r.id, r.began
