-- Those of these that are on, where Beat cannot be told of a change: it takes the first update of all for none. {ids} source ids
SELECT t.id::text AS id
  FROM ONLY {schema}.django_celery_beat_periodictask AS t
 WHERE t.id::text = ANY ({ids}::text[]) AND t.enabled AND NOT EXISTS (SELECT FROM ONLY {schema}.django_celery_beat_periodictasks AS u WHERE u.ident = 1)
