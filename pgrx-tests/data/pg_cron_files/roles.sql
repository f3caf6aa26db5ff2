-- An application's role schedules for itself; old jobs are taken away by a query of cron.job.
CREATE EXTENSION IF NOT EXISTS "pg_cron" SCHEMA pg_catalog;
GRANT USAGE ON SCHEMA cron TO app;
GRANT EXECUTE ON ALL FUNCTIONS IN SCHEMA cron TO app;
GRANT SELECT ON cron.job, cron.job_run_details TO app;

SET ROLE app;
SELECT cron.schedule('app-heartbeat', '* * * * *', 'SELECT 1');
SELECT cron.schedule('app-old', '* * * * *', 'SELECT 1');
SELECT cron.unschedule(jobname) FROM cron.job WHERE jobname LIKE 'app-old%';
RESET ROLE;

SELECT cron.unschedule('obsolete') WHERE EXISTS (SELECT 1 FROM cron.job WHERE jobname = 'obsolete');
DO $$
DECLARE
    old record;
BEGIN
    FOR old IN SELECT jobid FROM cron.job WHERE command ILIKE '%drop_old_partitions%' LOOP
        PERFORM cron.unschedule(old.jobid);
    END LOOP;
END
$$;
INSERT INTO cron.job (schedule, command, nodename, nodeport, database, username)
SELECT '0 1 * * *', 'ANALYZE public.sessions', '', inet_server_port(), current_database(), current_user
 WHERE inet_server_port() IS NOT NULL;
UPDATE cron.job SET active = false WHERE jobname = 'app-heartbeat';
