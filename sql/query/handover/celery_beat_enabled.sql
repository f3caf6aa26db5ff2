-- Those of these that are on. {ids} source ids
SELECT t.id::text AS id FROM ONLY {schema}.django_celery_beat_periodictask AS t WHERE t.id::text = ANY ({ids}::text[]) AND t.enabled
