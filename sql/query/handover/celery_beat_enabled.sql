-- Those of these that are on. $1 source ids
SELECT DISTINCT t.id::text AS id FROM ONLY {schema}.django_celery_beat_periodictask AS t WHERE t.id::text = ANY ($1) AND t.enabled
