-- A Beat that is at work reads its tables again once their last update is a later one. By an old last run it would send at once what is switched
-- on again: it counts as sent last when it was due last. $1 source ids, $2 whether they are on, $3 when each was due last (NULL = as it is)
WITH switched AS (
    UPDATE ONLY {schema}.django_celery_beat_periodictask AS t
       SET enabled = $2, last_run_at = greatest(t.last_run_at, n.due_at)
      FROM unnest($1, $3) AS n (id, due_at)
     WHERE t.id::text = n.id
)
INSERT INTO {schema}.django_celery_beat_periodictasks AS u (ident, last_update) VALUES (1, pg_catalog.clock_timestamp())
    ON CONFLICT (ident) DO UPDATE SET last_update = greatest(u.last_update, excluded.last_update)
