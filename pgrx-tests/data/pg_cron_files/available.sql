-- What is available is created; the wanted job is made where the cron database is this one.
DO $$
DECLARE
    is_available boolean;
BEGIN
    SELECT EXISTS (SELECT FROM pg_available_extensions WHERE name = 'pg_cron') INTO is_available;
    IF is_available AND current_setting('cron.database_name', true) = current_database() THEN
        CREATE EXTENSION IF NOT EXISTS pg_cron;
        PERFORM cron.schedule('nightly', '0 3 * * *', 'DELETE FROM cron.job_run_details WHERE end_time < now() - interval ''7 days''');
    END IF;
END
$$;
COMMENT ON EXTENSION pg_cron IS 'Job scheduler for PostgreSQL';
