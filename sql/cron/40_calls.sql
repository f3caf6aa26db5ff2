-- From a call to what it does. perform() runs as the owner of this extension, for the role that inserts. Since anybody may insert by hand, it
-- checks every right itself.

CREATE FUNCTION cron_internal.denied(kind text, name text) RETURNS void
    LANGUAGE plpgsql SET search_path = pg_catalog, pg_temp SET standard_conforming_strings = on AS
$$
BEGIN
    RAISE EXCEPTION 'permission denied for % %', kind, name USING ERRCODE = 'insufficient_privilege';
END
$$;
COMMENT ON FUNCTION cron_internal.denied IS 'internal: 42501';

CREATE FUNCTION cron_internal.check_row(call cron_internal.call) RETURNS void
    LANGUAGE plpgsql SET search_path = pg_catalog, pg_temp SET standard_conforming_strings = on AS
$$
DECLARE
    missing CONSTANT text := CASE WHEN call.schedule IS NULL THEN 'schedule' WHEN call.command IS NULL THEN 'command'
                                  WHEN call.nodename IS NULL THEN 'nodename' WHEN call.nodeport IS NULL THEN 'nodeport'
                                  WHEN call.database IS NULL THEN 'database' WHEN call.username IS NULL THEN 'username'
                                  WHEN call.active IS NULL THEN 'active' END;
BEGIN
    IF missing IS NOT NULL THEN
        RAISE EXCEPTION 'null value in column "%" of relation "job" violates not-null constraint', missing USING ERRCODE = 'not_null_violation';
    ELSIF call.username <> pg_get_userbyid(call.caller) AND NOT cron_internal.sees_all(call.caller) THEN
        RAISE EXCEPTION 'new row violates row-level security policy for table "job"' USING ERRCODE = 'insufficient_privilege';
    END IF;
    PERFORM cron_internal.check_here(call.database, call.nodename, call.nodeport);
END
$$;
COMMENT ON FUNCTION cron_internal.check_row IS 'internal: an error where cron.job may not have such a row';

-- A change by hand of cron.job is under the policy of its rows: those of others are as if they were not there.
CREATE FUNCTION cron_internal.change_row(call cron_internal.call) RETURNS bigint
    LANGUAGE plpgsql SET search_path = pg_catalog, pg_temp SET standard_conforming_strings = on AS
$$
DECLARE
    found_job cron_internal.locked_job;
    changed   text[];
    attribute text;
    new_owner oid;
BEGIN
    IF call.action IN ('INSERT', 'DELETE') AND NOT has_table_privilege(call.caller, 'cron.job', call.action) THEN
        PERFORM cron_internal.denied('table', 'job');
    END IF;
    IF call.action = 'INSERT' THEN
        PERFORM cron_internal.check_row(call);
        new_owner := cron_internal.job_owner(call.caller, NULLIF(call.username, pg_get_userbyid(call.caller)), 'create a job for another role');
        IF cron_internal.job_named(call.jobname, new_owner) IS NOT NULL THEN
            RAISE EXCEPTION 'duplicate key value violates unique constraint "jobname_username_uniq"'
                USING ERRCODE = 'unique_violation', HINT = 'cron.schedule with this name changes the job.';
        END IF;
        RETURN cron_internal.schedule(COALESCE(call.id, nextval('cron.jobid_seq')), call.jobname, call.schedule, call.command, new_owner, call.active, call.nodename, call.nodeport);
    END IF;
    found_job := cron_internal.lock_job(call.id, CASE WHEN NOT cron_internal.sees_all(call.caller) THEN call.caller END);
    IF found_job.jobid IS NULL THEN
        RETURN NULL;
    ELSIF call.action = 'DELETE' THEN
        PERFORM cron_internal.unschedule(found_job);
        RETURN found_job.jobid;
    END IF;
    changed := ARRAY[CASE WHEN call.schedule IS DISTINCT FROM found_job.schedule THEN 'schedule' END,
                     CASE WHEN call.command IS DISTINCT FROM found_job.command THEN 'command' END,
                     CASE WHEN call.nodename IS DISTINCT FROM found_job.nodename THEN 'nodename' END,
                     CASE WHEN call.nodeport IS DISTINCT FROM found_job.nodeport THEN 'nodeport' END,
                     CASE WHEN call.database IS DISTINCT FROM current_database() THEN 'database' END,
                     CASE WHEN call.username IS DISTINCT FROM pg_get_userbyid(found_job.owner) THEN 'username' END,
                     CASE WHEN call.active IS DISTINCT FROM found_job.active THEN 'active' END,
                     CASE WHEN call.jobname IS DISTINCT FROM found_job.jobname THEN 'jobname' END];
    FOREACH attribute IN ARRAY array_remove(changed, NULL) LOOP
        IF NOT has_column_privilege(call.caller, 'cron.job', attribute, 'UPDATE') THEN
            PERFORM cron_internal.denied('table', 'job');
        END IF;
    END LOOP;
    PERFORM cron_internal.check_row(call);
    IF 'username' = ANY (changed) THEN
        new_owner := cron_internal.job_owner(call.caller, NULLIF(call.username, pg_get_userbyid(call.caller)), 'alter username');
    END IF;
    PERFORM cron_internal.follow(call.jobname, COALESCE(new_owner, found_job.owner));
    UPDATE cron_internal.entry e SET jobname = call.jobname, nodename = call.nodename, nodeport = call.nodeport WHERE e.jobid = found_job.jobid;
    PERFORM cron_internal.change(found_job, CASE WHEN 'schedule' = ANY (changed) THEN call.schedule END,
                                 CASE WHEN 'command' = ANY (changed) THEN call.command END, new_owner,
                                 CASE WHEN 'active' = ANY (changed) THEN call.active END);
    RETURN found_job.jobid;
END
$$;
COMMENT ON FUNCTION cron_internal.change_row IS 'internal: INSERT, UPDATE and DELETE of cron.job';

CREATE FUNCTION cron_internal.alter_job(call cron_internal.call) RETURNS void
    LANGUAGE plpgsql SET search_path = pg_catalog, pg_temp SET standard_conforming_strings = on AS
$$
DECLARE
    found_job cron_internal.locked_job;
    owner     CONSTANT oid := cron_internal.job_owner(call.caller, call.username, 'alter username');
BEGIN
    IF call.database IS NOT NULL THEN
        PERFORM cron_internal.check_connect(owner, call.database);
    END IF;
    PERFORM cron_internal.required_clock(call.schedule);
    IF num_nonnulls(call.schedule, call.command, call.database, call.username, call.active) = 0 THEN
        RAISE EXCEPTION 'no updates specified'
            USING ERRCODE = 'internal_error', HINT = 'You must specify at least one job attribute to change when calling alter_job';
    END IF;
    found_job := cron_internal.lock_job(call.id, CASE WHEN NOT cron_internal.is_superuser(call.caller) THEN call.caller END);
    IF found_job.jobid IS NULL THEN
        RAISE EXCEPTION 'Job % does not exist or you don''t own it', call.id USING ERRCODE = 'internal_error';
    END IF;
    PERFORM cron_internal.check_here(call.database, NULL, NULL);
    PERFORM cron_internal.change(found_job, call.schedule, call.command, CASE WHEN call.username IS NOT NULL THEN owner END, call.active);
END
$$;
COMMENT ON FUNCTION cron_internal.alter_job IS 'internal: what cron.alter_job does';

CREATE FUNCTION cron_internal.remove_job(call cron_internal.call) RETURNS void
    LANGUAGE plpgsql SET search_path = pg_catalog, pg_temp SET standard_conforming_strings = on AS
$$
DECLARE
    is_named  CONSTANT boolean := call.action = 'cron.unschedule(text)';
    is_for_all CONSTANT boolean := NOT is_named AND has_table_privilege(call.caller, 'cron.job', 'DELETE');
    found_job CONSTANT cron_internal.locked_job :=
        cron_internal.lock_job(CASE WHEN is_named THEN cron_internal.job_named(call.jobname, call.caller) ELSE call.id END,
                               CASE WHEN NOT is_for_all THEN call.caller END);
BEGIN
    IF found_job.jobid IS NULL THEN
        IF NOT is_named AND EXISTS (SELECT
                                      FROM cron_internal.entry e
                                      JOIN sched.schedule s ON s.schedule_id = e.schedule_id
                                      JOIN sched.job j ON j.job_name = s.job_name
                                     WHERE e.jobid = call.id AND e.removed_at IS NULL AND j.owner::oid <> call.caller) THEN
            PERFORM cron_internal.denied('table', 'job');
        END IF;
        RAISE EXCEPTION 'could not find valid entry for job %', COALESCE('''' || call.jobname || '''', call.id::text)
            USING ERRCODE = 'internal_error';
    END IF;
    PERFORM cron_internal.unschedule(found_job);
END
$$;
COMMENT ON FUNCTION cron_internal.remove_job IS 'internal: what cron.unschedule does';

CREATE FUNCTION cron_internal.add_job(call cron_internal.call) RETURNS bigint
    LANGUAGE plpgsql SET search_path = pg_catalog, pg_temp SET standard_conforming_strings = on AS
$$
DECLARE
    is_named CONSTANT boolean := call.action <> 'cron.schedule(text,text)';
    missing  CONSTANT text := CASE WHEN is_named AND call.jobname IS NULL THEN 'job_name' WHEN call.schedule IS NULL THEN 'schedule'
                                   WHEN call.command IS NULL THEN 'command' END;
    database CONSTANT text := COALESCE(call.database, current_database());
    owner    oid;
BEGIN
    IF missing IS NOT NULL THEN
        RAISE EXCEPTION '% can not be NULL', missing USING ERRCODE = 'internal_error';
    END IF;
    PERFORM cron_internal.required_clock(call.schedule);
    owner := cron_internal.job_owner(call.caller, call.username, 'create a job for another role');
    PERFORM cron_internal.check_connect(owner, database);
    PERFORM cron_internal.check_here(database, NULL, NULL);
    RETURN cron_internal.schedule(NULL, CASE WHEN is_named THEN call.jobname END, call.schedule, call.command, owner,
                                  COALESCE(call.active, true), 'localhost', current_setting('port')::integer);
END
$$;
COMMENT ON FUNCTION cron_internal.add_job IS 'internal: what cron.schedule and cron.schedule_in_database do';

CREATE FUNCTION cron_internal.delete_run(call cron_internal.call) RETURNS void
    LANGUAGE plpgsql SET search_path = pg_catalog, pg_temp SET standard_conforming_strings = on AS
$$
BEGIN
    IF NOT has_table_privilege(call.caller, 'cron.job_run_details', 'DELETE') THEN
        PERFORM cron_internal.denied('table', 'job_run_details');
    END IF;
    -- runid is the fence of a lease, which that sequence draws.
    IF (call.id BETWEEN 1 AND (SELECT CASE WHEN f.is_called THEN f.last_value ELSE 0 END FROM sched.fence f)) IS NOT TRUE THEN
        RAISE EXCEPTION 'run % does not exist', COALESCE(call.id::text, 'NULL')
            USING ERRCODE = 'invalid_parameter_value', HINT = 'Delete rows of cron.job_run_details by a condition on its columns.';
    END IF;
    IF cron_internal.sees_all(call.caller) THEN
        INSERT INTO cron_internal.deleted_run (runid, owner) VALUES (call.id, 0)
            ON CONFLICT (runid, owner) DO UPDATE SET deleted_at = sched.now();
    ELSIF call.username = pg_get_userbyid(call.caller) THEN
        -- It says nothing of the runs of others.
        INSERT INTO cron_internal.deleted_run (runid, owner) VALUES (call.id, call.caller)
            ON CONFLICT (runid, owner) DO UPDATE SET deleted_at = sched.now();
    END IF;
    -- The ledger has forgotten these too. They are of all roles: rows that another transaction has locked are left to a later call.
    DELETE FROM cron_internal.deleted_run d
     WHERE (d.runid, d.owner) IN (SELECT o.runid, o.owner
                                    FROM cron_internal.deleted_run o
                                   WHERE o.deleted_at < sched.now() - current_setting('sched.history_retention')::interval - interval '1 day'
                                     FOR UPDATE SKIP LOCKED);
END
$$;
COMMENT ON FUNCTION cron_internal.delete_run IS 'internal: DELETE of cron.job_run_details';

CREATE FUNCTION cron_internal.warn_of_launch() RETURNS void
    LANGUAGE plpgsql SET search_path = pg_catalog, pg_temp SET standard_conforming_strings = on AS
$$
BEGIN
    -- (Where pg_cron is preloaded as well it is its setting; where scheduler is not, anybody's text.)
    IF lower(current_setting('cron.launch_active_jobs', true)) IN ('off', 'false', 'no', '0') THEN
        RAISE WARNING 'cron.launch_active_jobs = off is not obeyed: the jobs of cron.job run'
            USING HINT = format('ALTER DATABASE %I SET sched.dispatch = off keeps all schedules of this database from firing.', current_database());
    END IF;
END
$$;
COMMENT ON FUNCTION cron_internal.warn_of_launch() IS 'internal: says that cron.launch_active_jobs is not obeyed';

CREATE FUNCTION cron_internal.perform() RETURNS trigger
    LANGUAGE plpgsql SECURITY DEFINER SET search_path = pg_catalog, pg_temp SET standard_conforming_strings = on AS
$$
DECLARE
    functions CONSTANT text[] := '{"cron.schedule(text,text)","cron.schedule(text,text,text)",
        "cron.schedule_in_database(text,text,text,text,text,boolean)","cron.alter_job(bigint,text,text,text,text,boolean)",
        "cron.unschedule(bigint)","cron.unschedule(text)"}';
BEGIN
    IF NOT has_schema_privilege(NEW.caller, 'cron', 'USAGE') THEN
        PERFORM cron_internal.denied('schema', 'cron');
    END IF;
    IF NEW.action = ANY (functions) AND NOT has_function_privilege(NEW.caller, NEW.action, 'EXECUTE') THEN
        PERFORM cron_internal.denied('function', substring(NEW.action FROM '\.([a-z_]+)'));
    END IF;
    IF NEW.jobname IS NOT NULL AND (NEW.action = 'INSERT' OR NEW.action = ANY (functions)) THEN
        -- Of another role only for a superuser: a row that a transaction has made keeps others of its name waiting.
        PERFORM cron_internal.adopt(NEW.jobname, COALESCE((SELECT r.oid FROM pg_roles r WHERE r.rolname = NEW.username AND cron_internal.is_superuser(NEW.caller)), NEW.caller), false);
    END IF;
    CASE NEW.action
        WHEN functions[1], functions[2], functions[3] THEN NEW.result := cron_internal.add_job(NEW);
        WHEN functions[4] THEN PERFORM cron_internal.alter_job(NEW);
        WHEN functions[5], functions[6] THEN PERFORM cron_internal.remove_job(NEW);
        WHEN 'INSERT', 'UPDATE', 'DELETE' THEN NEW.result := cron_internal.change_row(NEW);
        WHEN 'DELETE RUN' THEN PERFORM cron_internal.delete_run(NEW);
        ELSE RAISE EXCEPTION 'unknown action "%"', NEW.action USING ERRCODE = 'invalid_parameter_value', HINT = 'Call the functions of the schema cron.';
    END CASE;
    IF NEW.action IN ('INSERT', 'UPDATE') OR NEW.action = ANY (functions[1:4]) THEN
        PERFORM cron_internal.warn_of_launch();
    END IF;
    RETURN NEW;
END
$$;
COMMENT ON FUNCTION cron_internal.perform() IS 'internal: does what a call says, for the role that made it';
-- By their names in this order.
CREATE FUNCTION cron_internal.note_caller() RETURNS trigger
    LANGUAGE plpgsql SET search_path = pg_catalog, pg_temp SET standard_conforming_strings = on AS
$$
BEGIN
    SELECT r.oid INTO STRICT NEW.caller FROM pg_roles r WHERE r.rolname = current_user;
    RETURN NEW;
END
$$;
COMMENT ON FUNCTION cron_internal.note_caller() IS 'internal: who inserts a call, as whom this runs';
CREATE TRIGGER a_note_caller INSTEAD OF INSERT ON cron_internal.call FOR EACH ROW EXECUTE FUNCTION cron_internal.note_caller();
CREATE TRIGGER perform INSTEAD OF INSERT ON cron_internal.call FOR EACH ROW EXECUTE FUNCTION cron_internal.perform();

-- These run as the reader, so that the call has his name.
CREATE FUNCTION cron_internal.write_job() RETURNS trigger
    LANGUAGE plpgsql SET search_path = pg_catalog, pg_temp SET standard_conforming_strings = on AS
$$
BEGIN
    IF TG_OP = 'DELETE' THEN
        INSERT INTO cron_internal.call (action, id) VALUES ('DELETE', OLD.jobid);
        RETURN OLD;
    END IF;
    IF TG_OP = 'UPDATE' AND NEW.jobid IS DISTINCT FROM OLD.jobid THEN
        RAISE EXCEPTION 'cannot change the jobid of job %', OLD.jobid USING ERRCODE = 'feature_not_supported', HINT = 'Schedule the job anew.';
    END IF;
    INSERT INTO cron_internal.call AS c (action, id, jobname, schedule, command, database, username, active, nodename, nodeport)
    VALUES (TG_OP, NEW.jobid, NEW.jobname, NEW.schedule, NEW.command, NEW.database, NEW.username, NEW.active, NEW.nodename, NEW.nodeport)
    RETURNING c.result INTO NEW.jobid;
    RETURN NEW;
END
$$;
COMMENT ON FUNCTION cron_internal.write_job() IS 'internal: INSERT, UPDATE and DELETE of cron.job, as calls';
CREATE TRIGGER write_job INSTEAD OF INSERT OR UPDATE OR DELETE ON cron.job FOR EACH ROW EXECUTE FUNCTION cron_internal.write_job();

CREATE FUNCTION cron_internal.delete_run_details() RETURNS trigger
    LANGUAGE plpgsql SET search_path = pg_catalog, pg_temp SET standard_conforming_strings = on AS
$$
BEGIN
    INSERT INTO cron_internal.call (action, id, username) VALUES ('DELETE RUN', OLD.runid, OLD.username);
    RETURN OLD;
END
$$;
COMMENT ON FUNCTION cron_internal.delete_run_details() IS 'internal: DELETE of cron.job_run_details, as calls';
CREATE TRIGGER delete_run INSTEAD OF DELETE ON cron.job_run_details FOR EACH ROW EXECUTE FUNCTION cron_internal.delete_run_details();

-- Without it the server's hint is to write such a trigger.
CREATE FUNCTION cron_internal.refuse_run_details() RETURNS trigger
    LANGUAGE plpgsql SET search_path = pg_catalog, pg_temp SET standard_conforming_strings = on AS
$$
BEGIN
    RAISE EXCEPTION 'cannot % cron.job_run_details', lower(TG_OP)
        USING ERRCODE = 'feature_not_supported',
              HINT = CASE TG_OP WHEN 'INSERT' THEN 'Its rows are runs of the ledger. Keep runs of another server in a table of your own: CREATE TABLE old_runs (LIKE cron.job_run_details).'
                                ELSE 'Its rows are runs of the ledger. A run whose process has gone ends by itself, and DELETE hides a row.' END;
END
$$;
COMMENT ON FUNCTION cron_internal.refuse_run_details() IS 'internal: what cannot be done to cron.job_run_details';
CREATE TRIGGER refuse INSTEAD OF INSERT OR UPDATE ON cron.job_run_details FOR EACH ROW EXECUTE FUNCTION cron_internal.refuse_run_details();
