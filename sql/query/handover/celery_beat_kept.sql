-- Those of these that are on, where Beat cannot be told of a change: it takes the first update of all for none. $1 source ids
SELECT t.id::text AS id
  FROM ONLY {schema}.django_celery_beat_periodictask AS t
 WHERE t.id::text = ANY ($1) AND t.enabled AND NOT EXISTS (SELECT FROM ONLY {schema}.django_celery_beat_periodictasks AS u WHERE u.ident = 1)
