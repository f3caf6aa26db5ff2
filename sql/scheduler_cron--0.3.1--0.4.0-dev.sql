-- From 0.3.1. What is new in sql/cron stands here too; a test compares the result with a new extension.
\echo Use "ALTER EXTENSION scheduler_cron UPDATE" to load this file. \quit

-- To the end of the transaction. What is named without a schema is Postgres' own.
SET LOCAL search_path = pg_catalog, pg_temp;

DO $$
BEGIN
    IF pg_catalog.to_regprocedure('sched.now()') IS NULL THEN
        RAISE EXCEPTION 'the extension scheduler is too old for scheduler_cron'
            USING ERRCODE = 'object_not_in_prerequisite_state', HINT = 'Run ALTER EXTENSION scheduler UPDATE.';
    END IF;
END
$$;

ALTER TABLE cron_internal.deleted_run ALTER COLUMN deleted_at SET DEFAULT sched.now();

CREATE OR REPLACE FUNCTION cron_internal.check_here(database text, nodename text, nodeport integer) RETURNS void
    LANGUAGE plpgsql STABLE SET search_path = pg_catalog, pg_temp SET standard_conforming_strings = on AS
$$
BEGIN
    IF database <> current_database() THEN
        RAISE EXCEPTION 'cannot run jobs in database "%" from database "%"', database, current_database()
            USING ERRCODE = 'feature_not_supported',
                  HINT = 'Run CREATE EXTENSION scheduler_cron CASCADE in that database, and call cron.schedule there.';
    ELSIF nodeport <> current_setting('port')::integer OR nodename !~ '^(|localhost|127\.0\.0\.1|::1|/.*)$' THEN
        RAISE EXCEPTION 'cannot run jobs on another server (% port %)', nodename, nodeport
            USING ERRCODE = 'feature_not_supported',
                  HINT = format('A job of this server has nodename localhost and nodeport %s. Schedule another one on its server.', current_setting('port'));
    END IF;
END
$$;

CREATE OR REPLACE FUNCTION cron_internal.follow(jobname text, owner oid) RETURNS void
    LANGUAGE sql VOLATILE SET search_path = pg_catalog, pg_temp SET standard_conforming_strings = on AS
$$
    UPDATE cron_internal.entry e SET removed_at = sched.now()
     WHERE e.jobname = follow.jobname AND e.owner = follow.owner AND e.removed_at IS NULL
       AND NOT EXISTS (SELECT FROM sched.schedule s JOIN sched.job j ON j.job_name = s.job_name WHERE s.schedule_id = e.schedule_id);
    UPDATE cron_internal.entry e
       SET owner = j.owner, command = j.command,
           jobname = CASE WHEN EXISTS (SELECT FROM cron_internal.entry o WHERE o.jobname = e.jobname AND o.owner = j.owner AND o.removed_at IS NULL)
                          THEN e.jobname || ' (' || e.jobid || ')' ELSE e.jobname END
      FROM sched.schedule s
      JOIN sched.job j ON j.job_name = s.job_name
     WHERE s.schedule_id = e.schedule_id AND e.jobname = follow.jobname AND e.owner = follow.owner AND e.owner <> j.owner AND e.removed_at IS NULL
$$;

CREATE OR REPLACE FUNCTION cron_internal.change(found cron_internal.locked_job, schedule text, command text, owner oid, active boolean) RETURNS void
    LANGUAGE plpgsql SET search_path = pg_catalog, pg_temp SET standard_conforming_strings = on AS
$$
#variable_conflict use_column
DECLARE
    new_clock CONSTANT text := cron_internal.required_clock(change.schedule);
BEGIN
    IF change.owner IS NOT NULL THEN
        UPDATE cron_internal.entry e SET owner = change.owner, command = found.command WHERE e.jobid = found.jobid;
        -- cron.job shows the command that the other role runs from now on, and no settings.
        UPDATE sched.job j SET owner = change.owner, settings = '{}', updated_at = sched.now()
         WHERE j.job_name = found.job_name AND j.owner <> change.owner;
    END IF;
    IF new_clock IS NOT NULL THEN
        UPDATE cron_internal.entry e SET schedule = change.schedule, clock = new_clock WHERE e.jobid = found.jobid;
        PERFORM cron_internal.warn(new_clock, change.schedule);
    END IF;
    IF change.command IS NOT NULL THEN
        UPDATE cron_internal.entry e SET owner = COALESCE(change.owner, found.owner), command = change.command WHERE e.jobid = found.jobid;
        PERFORM sched_internal.alter_sql_job(found.job_name, change.command);
    END IF;
    IF new_clock IS NOT NULL OR change.active IS NOT NULL THEN
        PERFORM cron_internal.alter_schedule(found.schedule_name, new_clock, change.active);
    END IF;
    -- What was imported and never taken over: pg_cron has gone, and nobody else fires it.
    IF (new_clock IS NOT NULL OR change.active)
       AND EXISTS (SELECT FROM sched.schedule s WHERE s.schedule_name = found.schedule_name AND s.ownership = 'external') THEN
        PERFORM sched.alter_schedule(found.schedule_name, ownership => 'owned');
    END IF;
END
$$;

CREATE OR REPLACE FUNCTION cron_internal.unschedule(found cron_internal.locked_job) RETURNS void
    LANGUAGE plpgsql SET search_path = pg_catalog, pg_temp SET standard_conforming_strings = on AS
$$
BEGIN
    UPDATE cron_internal.entry e SET removed_at = sched.now(), owner = found.owner, command = found.command WHERE e.jobid = found.jobid;
    -- Those of whose runs the ledger has none any more. They are of all roles: rows that another transaction has locked are left to a later call.
    DELETE FROM cron_internal.entry e
     WHERE e.jobid IN (SELECT o.jobid
                         FROM cron_internal.entry o
                        WHERE o.removed_at < sched.now() - current_setting('sched.history_retention')::interval - interval '1 day'
                          FOR UPDATE SKIP LOCKED);
    IF found.schedule_name = found.job_name AND NOT EXISTS (SELECT FROM sched.schedule s WHERE s.job_name = found.job_name AND s.schedule_name <> s.job_name)
       AND EXISTS (SELECT FROM sched.job j WHERE j.job_name = found.job_name AND j.kind = 'sql') THEN
        PERFORM sched.unschedule(found.schedule_name);
        RETURN;
    END IF;
    -- somebody has renamed it, or uses its job for more
    PERFORM sched.drop_schedule(found.schedule_name, cancel_pending => true);
    IF NOT EXISTS (SELECT FROM sched.schedule s WHERE s.job_name = found.job_name) THEN
        PERFORM sched.drop_job(found.job_name);
    END IF;
END
$$;

CREATE OR REPLACE FUNCTION cron_internal.change_row(call cron_internal.call) RETURNS bigint
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

CREATE OR REPLACE FUNCTION cron_internal.delete_run(call cron_internal.call) RETURNS void
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

CREATE OR REPLACE FUNCTION cron_internal.perform() RETURNS trigger
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
        EXECUTE format('REVOKE ALL ON FUNCTION cron_internal.warn_of_launch, cron_internal.refuse_run_details FROM %s CASCADE', grantee);
    END LOOP;
END
$$;

SELECT cron_internal.warn_of_launch();
