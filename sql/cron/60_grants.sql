-- Who may what. At first nobody: not PUBLIC, and not those whom ALTER DEFAULT PRIVILEGES has given something. (The right to make a trigger on
-- cron_internal.call would be the right to act as whoever schedules: GRANT … ON ALL TABLES IN SCHEMA cron does not give it.)
DO $$
DECLARE
    grantee text;
BEGIN
    FOR grantee IN
        SELECT 'PUBLIC'
         UNION
        SELECT a.grantee::regrole::text
          FROM pg_default_acl AS d, aclexplode(d.defaclacl) AS a
         WHERE a.grantee NOT IN (0, (SELECT n.nspowner FROM pg_namespace n WHERE n.nspname = 'cron'))
    LOOP
        EXECUTE format('REVOKE ALL ON SCHEMA cron, cron_internal FROM %s CASCADE', grantee);
        EXECUTE format('REVOKE ALL ON ALL TABLES IN SCHEMA cron, cron_internal FROM %s CASCADE', grantee);
        EXECUTE format('REVOKE ALL ON ALL SEQUENCES IN SCHEMA cron FROM %s CASCADE', grantee);
        EXECUTE format('REVOKE ALL ON ALL FUNCTIONS IN SCHEMA cron, cron_internal FROM %s CASCADE', grantee);
        EXECUTE format('REVOKE ALL ON TYPE cron_internal.locked_job FROM %s CASCADE', grantee);
    END LOOP;
END
$$;

-- As there: USAGE on the schema is the right to schedule and to see what is one's own. alter_job and schedule_in_database, and changes of
-- cron.job by hand, are for an administrator to grant.
GRANT SELECT ON cron.job TO PUBLIC;
GRANT SELECT, DELETE ON cron.job_run_details TO PUBLIC;
-- (Who has no USAGE on cron gets no further than perform().)
GRANT USAGE ON SCHEMA cron_internal TO PUBLIC;
GRANT INSERT (action, id, jobname, schedule, command, database, username, active, nodename, nodeport), SELECT (result) ON cron_internal.call TO PUBLIC;
GRANT EXECUTE ON FUNCTION cron.schedule(text, text), cron.schedule(text, text, text), cron.unschedule(bigint), cron.unschedule(text) TO PUBLIC;
-- Whoever has USAGE on the schema can dump the database.
GRANT SELECT ON SEQUENCE cron.jobid_seq TO PUBLIC;
