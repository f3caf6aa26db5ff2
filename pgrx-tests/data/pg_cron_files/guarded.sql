-- Jobs only where there is a pg_cron: a plain PostgreSQL of a developer has none.
DO $migration$
BEGIN
    IF EXISTS (SELECT 1 FROM pg_extension WHERE extname = 'pg_cron') THEN
        PERFORM cron.unschedule(jobid) FROM cron.job WHERE jobname = 'rollup-hourly';
        PERFORM cron.schedule('rollup-hourly', '5 * * * *', 'SELECT count(*) FROM public.sessions');
    ELSE
        RAISE NOTICE 'pg_cron is not installed, skipping';
    END IF;
END
$migration$;

DO $$
BEGIN
    IF (SELECT extversion FROM pg_extension WHERE extname = 'pg_cron') >= '1.4' THEN
        PERFORM cron.schedule('versioned', '0 4 * * 0', 'VACUUM ANALYZE public.sessions');
    END IF;
EXCEPTION WHEN undefined_table OR invalid_schema_name THEN
    RAISE NOTICE 'no cron schema';
END
$$;
