-- From a call to what it does. perform() runs as the owner of this extension, for the role that its row names. Since anybody may insert
-- into cron.call by hand, it checks every right itself.

-- The row of a job that is there, whoever reads it.
CREATE FUNCTION cron_internal.job(job_id bigint) RETURNS cron.job
    LANGUAGE sql STABLE SET search_path = pg_catalog, pg_temp AS
$$
    SELECT e.jobid, CASE WHEN s.clock = e.clock THEN e.schedule ELSE s.clock END, j.command, e.nodename, e.nodeport, current_database()::text,
           pg_get_userbyid(j.owner)::text, s.enabled AND s.ownership = 'owned', e.jobname
      FROM cron_internal.entry e
      JOIN sched.schedule s ON s.schedule_id = e.schedule_id
      JOIN sched.job j ON j.job_name = s.job_name
     WHERE e.jobid = job_id AND e.removed_at IS NULL
$$;
COMMENT ON FUNCTION cron_internal.job IS 'internal: a row of cron.job, whoever reads it';

CREATE FUNCTION cron_internal.denied(kind text, name text) RETURNS void
    LANGUAGE plpgsql SET search_path = pg_catalog, pg_temp AS
$$
BEGIN
    RAISE EXCEPTION 'permission denied for % %', kind, name USING ERRCODE = 'insufficient_privilege';
END
$$;
COMMENT ON FUNCTION cron_internal.denied IS 'internal: 42501';

CREATE FUNCTION cron_internal.check_row(call cron_internal.call_of) RETURNS void
    LANGUAGE plpgsql SET search_path = pg_catalog, pg_temp AS
$$
DECLARE
    missing CONSTANT text := CASE WHEN call.schedule IS NULL THEN 'schedule' WHEN call.command IS NULL THEN 'command'
                                  WHEN call.nodename IS NULL THEN 'nodename' WHEN call.nodeport IS NULL THEN 'nodeport'
                                  WHEN call.database IS NULL THEN 'database' WHEN call.username IS NULL THEN 'username'
                                  WHEN call.active IS NULL THEN 'active' END;
BEGIN
    IF missing IS NOT NULL THEN
        RAISE EXCEPTION 'null value in column "%" of relation "job" violates not-null constraint', missing USING ERRCODE = 'not_null_violation';
    ELSIF call.username <> call.caller AND NOT cron_internal.sees_all(call.caller) THEN
        RAISE EXCEPTION 'new row violates row-level security policy for table "job"' USING ERRCODE = 'insufficient_privilege';
    END IF;
    PERFORM cron_internal.check_here(call.database, call.nodename, call.nodeport);
END
$$;
COMMENT ON FUNCTION cron_internal.check_row IS 'internal: an error where cron.job may not have such a row';

-- A change by hand of cron.job is under the policy of its rows: those of others are as if they were not there.
CREATE FUNCTION cron_internal.change_row(call cron_internal.call_of) RETURNS bigint
    LANGUAGE plpgsql SET search_path = pg_catalog, pg_temp AS
$$
DECLARE
    found_job CONSTANT cron.job := cron_internal.job(call.id);
    changed   text[];
    attribute text;
    new_owner regrole;
BEGIN
    IF call.action IN ('INSERT', 'DELETE') AND NOT has_table_privilege(call.caller, 'cron.job', call.action) THEN
        PERFORM cron_internal.denied('table', 'job');
    END IF;
    IF call.action = 'INSERT' THEN
        PERFORM cron_internal.check_row(call);
        new_owner := cron_internal.job_owner(call.caller, NULLIF(call.username, call.caller), 'create a job for another role');
        IF EXISTS (SELECT FROM cron_internal.entry e WHERE e.jobname = call.jobname AND e.owner = new_owner AND e.removed_at IS NULL) THEN
            RAISE EXCEPTION 'duplicate key value violates unique constraint "jobname_username_uniq"' USING ERRCODE = 'unique_violation';
        END IF;
        RETURN cron_internal.schedule(call.id, call.jobname, call.schedule, call.command, new_owner, call.active, call.nodename, call.nodeport);
    ELSIF found_job.jobid IS NULL OR (found_job.username <> call.caller AND NOT cron_internal.sees_all(call.caller)) THEN
        RETURN NULL;
    ELSIF call.action = 'DELETE' THEN
        PERFORM cron_internal.unschedule(found_job.jobid);
        RETURN found_job.jobid;
    END IF;
    changed := ARRAY[CASE WHEN call.schedule IS DISTINCT FROM found_job.schedule THEN 'schedule' END,
                     CASE WHEN call.command IS DISTINCT FROM found_job.command THEN 'command' END,
                     CASE WHEN call.nodename IS DISTINCT FROM found_job.nodename THEN 'nodename' END,
                     CASE WHEN call.nodeport IS DISTINCT FROM found_job.nodeport THEN 'nodeport' END,
                     CASE WHEN call.database IS DISTINCT FROM found_job.database THEN 'database' END,
                     CASE WHEN call.username IS DISTINCT FROM found_job.username THEN 'username' END,
                     CASE WHEN call.active IS DISTINCT FROM found_job.active THEN 'active' END,
                     CASE WHEN call.jobname IS DISTINCT FROM found_job.jobname THEN 'jobname' END];
    FOREACH attribute IN ARRAY array_remove(changed, NULL) LOOP
        IF NOT has_column_privilege(call.caller, 'cron.job', attribute, 'UPDATE') THEN
            PERFORM cron_internal.denied('table', 'job');
        END IF;
    END LOOP;
    PERFORM cron_internal.check_row(call);
    IF 'username' = ANY (changed) THEN
        new_owner := cron_internal.job_owner(call.caller, NULLIF(call.username, call.caller), 'alter username');
    END IF;
    UPDATE cron_internal.entry e SET jobname = call.jobname, nodename = call.nodename, nodeport = call.nodeport WHERE e.jobid = found_job.jobid;
    PERFORM cron_internal.change(found_job.jobid, CASE WHEN 'schedule' = ANY (changed) THEN call.schedule END,
                                 CASE WHEN 'command' = ANY (changed) THEN call.command END, new_owner,
                                 CASE WHEN 'active' = ANY (changed) THEN call.active END);
    RETURN found_job.jobid;
END
$$;
COMMENT ON FUNCTION cron_internal.change_row IS 'internal: INSERT, UPDATE and DELETE of cron.job';

CREATE FUNCTION cron_internal.alter_job(call cron_internal.call_of) RETURNS void
    LANGUAGE plpgsql SET search_path = pg_catalog, pg_temp AS
$$
DECLARE
    found_job cron.job;
    owner     CONSTANT regrole := cron_internal.job_owner(call.caller, call.username, 'alter username');
BEGIN
    IF call.database IS NOT NULL THEN
        PERFORM cron_internal.check_connect(owner, call.database);
    END IF;
    PERFORM cron_internal.required_clock(call.schedule);
    IF num_nonnulls(call.schedule, call.command, call.database, call.username, call.active) = 0 THEN
        RAISE EXCEPTION 'no updates specified'
            USING ERRCODE = 'internal_error', HINT = 'You must specify at least one job attribute to change when calling alter_job';
    END IF;
    found_job := cron_internal.job(call.id);
    IF found_job.jobid IS NULL OR (found_job.username <> call.caller AND NOT cron_internal.is_superuser(call.caller)) THEN
        RAISE EXCEPTION 'Job % does not exist or you don''t own it', call.id USING ERRCODE = 'internal_error';
    END IF;
    PERFORM cron_internal.check_here(call.database, NULL, NULL);
    PERFORM cron_internal.change(found_job.jobid, call.schedule, call.command, CASE WHEN call.username IS NOT NULL THEN owner END, call.active);
END
$$;
COMMENT ON FUNCTION cron_internal.alter_job IS 'internal: what cron.alter_job does';

CREATE FUNCTION cron_internal.remove_job(call cron_internal.call_of) RETURNS void
    LANGUAGE plpgsql SET search_path = pg_catalog, pg_temp AS
$$
DECLARE
    found_job cron.job;
    job_id    bigint := call.id;
BEGIN
    IF call.action = 'cron.unschedule(text)' THEN
        SELECT e.jobid INTO job_id
          FROM cron_internal.entry e
         WHERE e.jobname = call.jobname AND pg_get_userbyid(e.owner) = call.caller AND e.removed_at IS NULL;
    END IF;
    found_job := cron_internal.job(job_id);
    IF found_job.jobid IS NULL THEN
        RAISE EXCEPTION 'could not find valid entry for job %', COALESCE('''' || call.jobname || '''', call.id::text)
            USING ERRCODE = 'internal_error';
    ELSIF found_job.username <> call.caller AND NOT has_table_privilege(call.caller, 'cron.job', 'DELETE') THEN
        PERFORM cron_internal.denied('table', 'job');
    END IF;
    PERFORM cron_internal.unschedule(found_job.jobid);
END
$$;
COMMENT ON FUNCTION cron_internal.remove_job IS 'internal: what cron.unschedule does';

CREATE FUNCTION cron_internal.add_job(call cron_internal.call_of) RETURNS bigint
    LANGUAGE plpgsql SET search_path = pg_catalog, pg_temp AS
$$
DECLARE
    is_named CONSTANT boolean := call.action <> 'cron.schedule(text,text)';
    missing  CONSTANT text := CASE WHEN is_named AND call.jobname IS NULL THEN 'job_name' WHEN call.schedule IS NULL THEN 'schedule'
                                   WHEN call.command IS NULL THEN 'command' END;
    database CONSTANT text := COALESCE(call.database, current_database());
    owner    regrole;
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

CREATE FUNCTION cron_internal.delete_run(call cron_internal.call_of) RETURNS void
    LANGUAGE plpgsql SET search_path = pg_catalog, pg_temp AS
$$
BEGIN
    IF NOT has_table_privilege(call.caller, 'cron.job_run_details', 'DELETE') THEN
        PERFORM cron_internal.denied('table', 'job_run_details');
    END IF;
    INSERT INTO cron_internal.deleted_run (runid)
    SELECT call.id
      FROM cron_internal.entry e
      JOIN sched.ledger l ON l.key = e.key AND l.schedule_id = e.schedule_id
      LEFT JOIN sched.lease r ON r.execution_id = l.id
     WHERE e.jobid = call.result AND call.id = CASE WHEN r.execution_id IS NULL THEN l.fence ELSE r.fence END
       AND (pg_get_userbyid(l.owner) = call.caller OR cron_internal.sees_all(call.caller))
        ON CONFLICT DO NOTHING;
    -- The ledger has forgotten these too.
    DELETE FROM cron_internal.deleted_run d
     WHERE d.deleted_at < clock_timestamp() - current_setting('sched.history_retention')::interval - interval '1 day';
END
$$;
COMMENT ON FUNCTION cron_internal.delete_run IS 'internal: DELETE of cron.job_run_details';

CREATE FUNCTION cron_internal.perform() RETURNS trigger
    LANGUAGE plpgsql SECURITY DEFINER SET search_path = pg_catalog, pg_temp AS
$$
DECLARE
    functions CONSTANT text[] := '{"cron.schedule(text,text)","cron.schedule(text,text,text)",
        "cron.schedule_in_database(text,text,text,text,text,boolean)","cron.alter_job(bigint,text,text,text,text,boolean)",
        "cron.unschedule(bigint)","cron.unschedule(text)"}';
BEGIN
    IF NEW.action = ANY (functions) AND NOT has_function_privilege(NEW.caller, NEW.action, 'EXECUTE') THEN
        PERFORM cron_internal.denied('function', substring(NEW.action FROM '\.([a-z_]+)'));
    END IF;
    CASE NEW.action
        WHEN functions[1], functions[2], functions[3] THEN NEW.result := cron_internal.add_job(NEW);
        WHEN functions[4] THEN PERFORM cron_internal.alter_job(NEW);
        WHEN functions[5], functions[6] THEN PERFORM cron_internal.remove_job(NEW);
        WHEN 'INSERT', 'UPDATE', 'DELETE' THEN NEW.result := cron_internal.change_row(NEW);
        WHEN 'DELETE RUN' THEN PERFORM cron_internal.delete_run(NEW);
        ELSE RAISE EXCEPTION 'unknown action "%"', NEW.action USING ERRCODE = 'invalid_parameter_value', HINT = 'Call the functions of the schema cron.';
    END CASE;
    RETURN NEW;
END
$$;
COMMENT ON FUNCTION cron_internal.perform() IS 'internal: does what a call says, for the role that made it';
CREATE TRIGGER perform INSTEAD OF INSERT ON cron_internal.call_of FOR EACH ROW EXECUTE FUNCTION cron_internal.perform();

-- These run as the reader, so that the call has his name.
CREATE FUNCTION cron_internal.write_job() RETURNS trigger
    LANGUAGE plpgsql SET search_path = pg_catalog, pg_temp AS
$$
BEGIN
    IF TG_OP = 'DELETE' THEN
        INSERT INTO cron.call (action, id) VALUES ('DELETE', OLD.jobid);
        RETURN OLD;
    END IF;
    IF TG_OP = 'UPDATE' AND NEW.jobid IS DISTINCT FROM OLD.jobid THEN
        RAISE EXCEPTION 'cannot change the jobid of job %', OLD.jobid USING ERRCODE = 'feature_not_supported', HINT = 'Schedule the job anew.';
    END IF;
    INSERT INTO cron.call AS c (action, id, jobname, schedule, command, database, username, active, nodename, nodeport)
    VALUES (TG_OP, NEW.jobid, NEW.jobname, NEW.schedule, NEW.command, NEW.database, NEW.username, NEW.active, NEW.nodename, NEW.nodeport)
    RETURNING c.result INTO NEW.jobid;
    RETURN NEW;
END
$$;
COMMENT ON FUNCTION cron_internal.write_job() IS 'internal: INSERT, UPDATE and DELETE of cron.job, as calls';
CREATE TRIGGER write_job INSTEAD OF INSERT OR UPDATE OR DELETE ON cron.job FOR EACH ROW EXECUTE FUNCTION cron_internal.write_job();

CREATE FUNCTION cron_internal.delete_run_details() RETURNS trigger
    LANGUAGE plpgsql SET search_path = pg_catalog, pg_temp AS
$$
BEGIN
    INSERT INTO cron.call (action, id, result) VALUES ('DELETE RUN', OLD.runid, OLD.jobid);
    RETURN OLD;
END
$$;
COMMENT ON FUNCTION cron_internal.delete_run_details() IS 'internal: DELETE of cron.job_run_details, as calls';
CREATE TRIGGER delete_run INSTEAD OF DELETE ON cron.job_run_details FOR EACH ROW EXECUTE FUNCTION cron_internal.delete_run_details();
