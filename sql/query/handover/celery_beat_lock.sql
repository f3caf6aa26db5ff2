-- Their rows, locked, and whether each is on. $1 source ids
SELECT t.id::text AS id, t.enabled::text AS enabled FROM ONLY {schema}.django_celery_beat_periodictask AS t WHERE t.id::text = ANY ($1) FOR UPDATE
