-- The functions of pg_cron 1.6, with its names, arguments and defaults.

CREATE FUNCTION cron.schedule(schedule text, command text) RETURNS bigint
    LANGUAGE sql STRICT SET search_path = pg_catalog, pg_temp SET standard_conforming_strings = on AS
$$ INSERT INTO cron_internal.call (action, schedule, command) VALUES ('cron.schedule(text,text)', $1, $2) RETURNING result $$;
COMMENT ON FUNCTION cron.schedule(text, text) IS 'schedule a job without a name; its jobid';

CREATE FUNCTION cron.schedule(job_name text, schedule text, command text) RETURNS bigint
    LANGUAGE sql SET search_path = pg_catalog, pg_temp SET standard_conforming_strings = on AS
$$ INSERT INTO cron_internal.call (action, jobname, schedule, command) VALUES ('cron.schedule(text,text,text)', $1, $2, $3) RETURNING result $$;
COMMENT ON FUNCTION cron.schedule(text, text, text) IS 'schedule a job, or change the one of that name; its jobid';

CREATE FUNCTION cron.schedule_in_database(job_name text, schedule text, command text, database text, username text DEFAULT NULL,
                                          active boolean DEFAULT 'true') RETURNS bigint
    LANGUAGE sql SET search_path = pg_catalog, pg_temp SET standard_conforming_strings = on AS
$$
    INSERT INTO cron_internal.call (action, jobname, schedule, command, database, username, active)
    VALUES ('cron.schedule_in_database(text,text,text,text,text,boolean)', $1, $2, $3, $4, $5, $6) RETURNING result
$$;
COMMENT ON FUNCTION cron.schedule_in_database(text, text, text, text, text, boolean) IS
    'schedule a job in this database, for another role where a superuser asks; its jobid; 0A000 for another database';

CREATE FUNCTION cron.alter_job(job_id bigint, schedule text DEFAULT NULL, command text DEFAULT NULL, database text DEFAULT NULL,
                               username text DEFAULT NULL, active boolean DEFAULT NULL) RETURNS void
    LANGUAGE plpgsql SET search_path = pg_catalog, pg_temp SET standard_conforming_strings = on AS
$$
BEGIN
    IF job_id IS NULL THEN
        RAISE EXCEPTION 'job_id can not be NULL' USING ERRCODE = 'internal_error';
    END IF;
    INSERT INTO cron_internal.call (action, id, schedule, command, database, username, active)
    VALUES ('cron.alter_job(bigint,text,text,text,text,boolean)', $1, $2, $3, $4, $5, $6);
END
$$;
COMMENT ON FUNCTION cron.alter_job(bigint, text, text, text, text, boolean) IS
    'Alter the job identified by job_id. Any option left as NULL will not be modified.';

CREATE FUNCTION cron.unschedule(job_id bigint) RETURNS boolean
    LANGUAGE sql STRICT SET search_path = pg_catalog, pg_temp SET standard_conforming_strings = on AS
$$ INSERT INTO cron_internal.call (action, id) VALUES ('cron.unschedule(bigint)', $1) RETURNING true $$;
COMMENT ON FUNCTION cron.unschedule(bigint) IS 'drop a job; its run that is going on ends by itself';

CREATE FUNCTION cron.unschedule(job_name text) RETURNS boolean
    LANGUAGE sql STRICT SET search_path = pg_catalog, pg_temp SET standard_conforming_strings = on AS
$$ INSERT INTO cron_internal.call (action, jobname) VALUES ('cron.unschedule(text)', $1) RETURNING true $$;
COMMENT ON FUNCTION cron.unschedule(text) IS 'drop the job of that name of the role that calls';
