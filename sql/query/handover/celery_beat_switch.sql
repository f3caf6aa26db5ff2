-- A Beat that is at work reads its tables again once their last update is a later one. What is switched on again counts from now: by its last
-- run Beat would send it at once. $1 source ids, $2 whether they are on
WITH switched AS (
    UPDATE ONLY {schema}.django_celery_beat_periodictask AS t
       SET enabled = $2, last_run_at = CASE WHEN $2 THEN pg_catalog.clock_timestamp() ELSE t.last_run_at END
     WHERE t.id::text = ANY ($1)
)
INSERT INTO {schema}.django_celery_beat_periodictasks AS u (ident, last_update) VALUES (1, pg_catalog.clock_timestamp())
    ON CONFLICT (ident) DO UPDATE SET last_update = greatest(u.last_update, excluded.last_update)
