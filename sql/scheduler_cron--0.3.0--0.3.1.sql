-- From 0.3.0. What is new in sql/cron stands here too; a test compares the result with a new extension.
\echo Use "ALTER EXTENSION scheduler_cron UPDATE" to load this file. \quit

-- To the end of the transaction. What is named without a schema is Postgres' own.
SET LOCAL search_path = pg_catalog, pg_temp;

DO $$
BEGIN
    IF pg_catalog.to_regprocedure('sched_internal.alter_sql_job(text, text)') IS NULL THEN
        RAISE EXCEPTION 'the extension scheduler is too old for scheduler_cron'
            USING ERRCODE = 'object_not_in_prerequisite_state', HINT = 'Run ALTER EXTENSION scheduler UPDATE.';
    END IF;
END
$$;

-- Why a long step is refused, and what to write.
CREATE OR REPLACE FUNCTION cron_internal.required_clock(schedule text) RETURNS text
    LANGUAGE plpgsql STABLE STRICT SET search_path = pg_catalog, pg_temp SET standard_conforming_strings = on AS
$$
DECLARE
    both_days CONSTANT boolean := COALESCE(NULLIF(current_setting('cron.match_dom_and_dow', true), ''), 'off')::boolean;
    zone      CONSTANT text := cron_internal.zone();
    clock     CONSTANT text := cron_internal.clock(schedule, zone, both_days);
    highs     CONSTANT integer[] := '{59, 23, 31, 12, 7}';
    units     CONSTANT text[] := '{minutes, hours, days, months, days of the week}';
    fields    text[];
    field     text;
    long      text;
    hint      text := 'Use cron format (e.g. 5 4 * * *), or interval format ''[1-59] seconds''';
BEGIN
    IF clock IS NULL THEN
        -- A step that is longer than its field leaves the first value.
        fields := (regexp_split_to_array(btrim(left(schedule, 1000), E' \t\n'), '[ \t]+'))[1:5];
        FOR i IN 1..cardinality(fields) LOOP
            SELECT string_agg(CASE WHEN p.step[3]::integer > highs[i] THEN COALESCE(p.step[2], CASE WHEN i IN (3, 4) THEN '1' ELSE '0' END) ELSE p.item END, ',' ORDER BY p.n),
                   COALESCE(long, min(format('A step of %s is longer than the field of %s', p.step[3], units[i])) FILTER (WHERE p.step[3]::integer > highs[i]))
              INTO field, long
              FROM (SELECT s.item, s.n, regexp_match(s.item, '^(?:(\*)|([0-9A-Za-z]+)-[0-9A-Za-z]+)/([0-9]{1,9})$') AS step
                      FROM unnest(string_to_array(fields[i], ',')) WITH ORDINALITY AS s (item, n)) AS p;
            fields[i] := field;
        END LOOP;
        IF long IS NOT NULL AND cron_internal.clock(array_to_string(fields, ' '), zone, both_days) IS NOT NULL THEN
            hint := format('%s, and not every version of pg_cron takes it: write ''%s''', long, array_to_string(fields, ' '));
        END IF;
        RAISE EXCEPTION 'invalid schedule: %', schedule USING ERRCODE = 'invalid_parameter_value', HINT = hint;
    END IF;
    RETURN clock;
END
$$;

-- A row of another role is not locked.
DROP FUNCTION cron_internal.lock_job(bigint);
CREATE FUNCTION cron_internal.lock_job(job_id bigint, role oid) RETURNS cron_internal.locked_job
    LANGUAGE sql VOLATILE SET search_path = pg_catalog, pg_temp SET standard_conforming_strings = on AS
$$
    SELECT e.jobid, s.schedule_name, j.job_name, j.owner::oid, CASE WHEN s.clock = e.clock THEN e.schedule ELSE s.clock END, j.command,
           e.nodename, e.nodeport, s.enabled AND s.ownership = 'owned', e.jobname
      FROM cron_internal.entry e
      JOIN sched.schedule s ON s.schedule_id = e.schedule_id
      JOIN sched.job j ON j.job_name = s.job_name
     WHERE e.jobid = job_id AND e.removed_at IS NULL AND (role IS NULL OR j.owner::oid = role)
       FOR UPDATE OF e, s, j
$$;
COMMENT ON FUNCTION cron_internal.lock_job IS 'internal: a job of a role, or of any (NULL), locked; NULL where there is none';
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
        EXECUTE format('REVOKE ALL ON FUNCTION cron_internal.lock_job FROM %s CASCADE', grantee);
    END LOOP;
END
$$;

-- Jobs that sched.import_from has made of pg_cron's, by the names that they had there. So a migration that schedules one of them again changes
-- it, and makes no second. NULL = all of them, for all roles. At first they keep the numbers that they had.
CREATE FUNCTION cron_internal.adopt(jobname text, role oid, keep_ids boolean) RETURNS void
    LANGUAGE plpgsql SET search_path = pg_catalog, pg_temp SET standard_conforming_strings = on AS
$$
#variable_conflict use_column
DECLARE
    found_job record;
BEGIN
    IF keep_ids THEN
        PERFORM setval('cron.jobid_seq', max(i.source_id::bigint))
           FROM sched.imported i
          WHERE i.source = 'pg_cron' AND i.source_schema = 'cron' AND i.source_id ~ '^[1-9][0-9]{0,8}$'
         HAVING count(*) > 0;
    END IF;
    FOR found_job IN
        SELECT s.schedule_id, s.key, s.clock, j.owner, j.command, n.name,
               CASE WHEN adopt.keep_ids AND i.source_schema = 'cron' AND i.source_id ~ '^[1-9][0-9]{0,8}$' THEN i.source_id::bigint END AS kept_id
          FROM sched.imported i
          JOIN sched.schedule s ON s.schedule_id = i.schedule_id
          JOIN sched.job j ON j.job_name = s.job_name
         CROSS JOIN LATERAL (
               -- Where two had one name, each has its number behind it.
               SELECT COALESCE(i.source_name, CASE WHEN right(s.schedule_name, length(i.source_id) + 3) = ' (' || i.source_id || ')'
                                                   THEN left(s.schedule_name, -(length(i.source_id) + 3)) ELSE s.schedule_name END) AS name) AS called
         CROSS JOIN LATERAL (SELECT NULLIF(called.name, 'job ' || i.source_id) AS name) AS n
         WHERE i.source = 'pg_cron' AND j.kind = 'sql' AND s.ownership IN ('owned', 'external')
           AND (adopt.jobname IS NULL OR n.name = adopt.jobname) AND (adopt.role IS NULL OR j.owner::oid = adopt.role)
           AND NOT EXISTS (SELECT FROM cron_internal.entry e WHERE e.schedule_id = s.schedule_id AND e.removed_at IS NULL)
         ORDER BY s.schedule_id
    LOOP
        INSERT INTO cron_internal.entry (jobid, schedule_id, key, jobname, owner, schedule, clock, command, nodename, nodeport)
        VALUES (COALESCE(found_job.kept_id, nextval('cron.jobid_seq')), found_job.schedule_id, found_job.key, found_job.name, found_job.owner,
                regexp_replace(found_job.clock, '^every ([0-9]+ seconds?) after start$', '\1'), found_job.clock, found_job.command,
                'localhost', current_setting('port')::integer)
            ON CONFLICT DO NOTHING;
    END LOOP;
END
$$;
COMMENT ON FUNCTION cron_internal.adopt IS 'internal: makes rows of what was imported from pg_cron';
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
        EXECUTE format('REVOKE ALL ON FUNCTION cron_internal.adopt FROM %s CASCADE', grantee);
    END LOOP;
END
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
        UPDATE sched.job j SET owner = change.owner, settings = '{}', updated_at = clock_timestamp()
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

CREATE OR REPLACE FUNCTION cron_internal.create_schedule(jobid bigint, jobname text, clock text, command text, owner oid, active boolean) RETURNS bigint
    LANGUAGE plpgsql SET search_path = pg_catalog, pg_temp SET standard_conforming_strings = on AS
$$
DECLARE
    wanted   CONSTANT text := COALESCE(CASE WHEN octet_length(jobname) BETWEEN 1 AND 900 THEN jobname END, 'cron job ' || jobid);
    patience CONSTANT text := current_setting('lock_timeout');
    name     text := wanted;
    made     bigint;
    attempt  integer := 1;
BEGIN
    LOOP
        BEGIN
            PERFORM set_config('lock_timeout', CASE WHEN attempt <= 10 THEN '50ms' ELSE patience END, true);
            made := sched_internal.create_sql_job(name, clock, command, cron_internal.zone(), owner, active);
        EXCEPTION WHEN lock_not_available THEN
            IF attempt > 10 THEN
                RAISE;
            END IF;
            made := NULL;
        END;
        EXIT WHEN made IS NOT NULL;
        name := wanted || CASE WHEN attempt = 1 THEN ' of ' || left(pg_get_userbyid(owner), 63) WHEN attempt < 10 THEN ' (' || attempt || ')'
                               ELSE ' ' || gen_random_uuid() END;
        attempt := attempt + 1;
    END LOOP;
    PERFORM set_config('lock_timeout', patience, true);
    RETURN made;
END
$$;

CREATE OR REPLACE FUNCTION cron_internal.schedule(jobid bigint, jobname text, schedule text, command text, owner oid, active boolean,
                                       nodename text, nodeport integer) RETURNS bigint
    LANGUAGE plpgsql SET search_path = pg_catalog, pg_temp SET standard_conforming_strings = on AS
$$
#variable_conflict use_column
DECLARE
    new_clock CONSTANT text := cron_internal.required_clock(schedule.schedule);
    -- pg_cron draws one for a name that is there as well.
    drawn     CONSTANT bigint := COALESCE(schedule.jobid, nextval('cron.jobid_seq'));
    found_job cron_internal.locked_job;
    new_jobid bigint;
    new_id    bigint;
BEGIN
    LOOP
        IF schedule.jobid IS NULL THEN
            found_job := cron_internal.lock_job(cron_internal.job_named(schedule.jobname, schedule.owner), schedule.owner);
            IF found_job.owner = schedule.owner AND found_job.jobname = schedule.jobname THEN
                PERFORM cron_internal.change(found_job, schedule.schedule, schedule.command, NULL, NULL);
                RETURN found_job.jobid;
            END IF;
        END IF;
        PERFORM cron_internal.follow(schedule.jobname, schedule.owner);
        INSERT INTO cron_internal.entry AS e (jobid, jobname, owner, schedule, clock, command, nodename, nodeport)
        VALUES (drawn, schedule.jobname, schedule.owner, schedule.schedule, new_clock, schedule.command, schedule.nodename,
                schedule.nodeport)
            ON CONFLICT (jobname, owner) WHERE removed_at IS NULL DO NOTHING
        RETURNING e.jobid INTO new_jobid;
        EXIT WHEN new_jobid IS NOT NULL;
        -- Another session has made one of this name meanwhile.
        IF schedule.jobid IS NOT NULL THEN
            RAISE EXCEPTION 'duplicate key value violates unique constraint "jobname_username_uniq"' USING ERRCODE = 'unique_violation';
        END IF;
    END LOOP;
    PERFORM cron_internal.warn(new_clock, schedule.schedule);
    new_id := cron_internal.create_schedule(new_jobid, schedule.jobname, new_clock, schedule.command, schedule.owner, schedule.active);
    UPDATE cron_internal.entry e SET schedule_id = new_id, key = s.key
      FROM sched.schedule s
     WHERE e.jobid = new_jobid AND s.schedule_id = new_id;
    RETURN new_jobid;
END
$$;
CREATE OR REPLACE FUNCTION cron_internal.unschedule(found cron_internal.locked_job) RETURNS void
    LANGUAGE plpgsql SET search_path = pg_catalog, pg_temp SET standard_conforming_strings = on AS
$$
BEGIN
    UPDATE cron_internal.entry e SET removed_at = clock_timestamp(), owner = found.owner, command = found.command WHERE e.jobid = found.jobid;
    -- Those of whose runs the ledger has none any more. They are of all roles: rows that another transaction has locked are left to a later call.
    DELETE FROM cron_internal.entry e
     WHERE e.jobid IN (SELECT o.jobid
                         FROM cron_internal.entry o
                        WHERE o.removed_at < clock_timestamp() - current_setting('sched.history_retention')::interval - interval '1 day'
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
            RAISE EXCEPTION 'duplicate key value violates unique constraint "jobname_username_uniq"' USING ERRCODE = 'unique_violation';
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

CREATE OR REPLACE FUNCTION cron_internal.alter_job(call cron_internal.call) RETURNS void
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

CREATE OR REPLACE FUNCTION cron_internal.remove_job(call cron_internal.call) RETURNS void
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
            ON CONFLICT (runid, owner) DO UPDATE SET deleted_at = clock_timestamp();
    ELSIF call.username = pg_get_userbyid(call.caller) THEN
        -- It says nothing of the runs of others.
        INSERT INTO cron_internal.deleted_run (runid, owner) VALUES (call.id, call.caller)
            ON CONFLICT (runid, owner) DO UPDATE SET deleted_at = clock_timestamp();
    END IF;
    -- The ledger has forgotten these too. They are of all roles: rows that another transaction has locked are left to a later call.
    DELETE FROM cron_internal.deleted_run d
     WHERE (d.runid, d.owner) IN (SELECT o.runid, o.owner
                                    FROM cron_internal.deleted_run o
                                   WHERE o.deleted_at < clock_timestamp() - current_setting('sched.history_retention')::interval - interval '1 day'
                                     FOR UPDATE SKIP LOCKED);
END
$$;

-- What was said of a runid before a run had it says nothing of that run.
CREATE OR REPLACE VIEW cron.job_run_details WITH (security_barrier) AS
SELECT e.jobid, run.id AS runid, pg_catalog.substring(run.runner_id, '^sql/([0-9]{1,9})$')::integer AS job_pid,
       pg_catalog.current_database()::text AS database, pg_catalog.pg_get_userbyid(l.owner)::text AS username,
       CASE WHEN COALESCE(j.owner::oid, e.owner::oid) = l.owner::oid THEN COALESCE(j.command, e.command) END AS command,
       CASE WHEN r.execution_id IS NOT NULL THEN 'running' WHEN l.status = 'SUCCESS' THEN 'succeeded' ELSE 'failed' END AS status,
       CASE WHEN r.execution_id IS NOT NULL THEN NULL
            WHEN l.status = 'CANCELLED' THEN 'job cancelled'
            WHEN l.status <> 'SUCCESS'
            THEN 'ERROR:  ' || pg_catalog.regexp_replace(l.error_msg, '\nstatement [0-9]+ of [0-9]+$', '') || E'\n'
            WHEN last.tag = 'SELECT' THEN last.rows || CASE last.rows WHEN '1' THEN ' row' ELSE ' rows' END
            WHEN last.tag = 'INSERT' THEN 'INSERT 0 ' || last.rows
            ELSE pg_catalog.concat_ws(' ', last.tag, last.rows) END AS return_message,
       CASE WHEN r.execution_id IS NULL THEN l.started_at ELSE r.started_at END AS start_time,
       CASE WHEN r.execution_id IS NULL THEN l.finished_at END AS end_time
  FROM cron_internal.entry e
  JOIN sched.ledger l ON l.key = e.key AND l.schedule_id = e.schedule_id
  LEFT JOIN sched.lease r ON r.execution_id = l.id
  LEFT JOIN sched.schedule s ON s.schedule_id = e.schedule_id
  LEFT JOIN sched.job j ON j.job_name = s.job_name
 CROSS JOIN LATERAL (SELECT CASE WHEN r.execution_id IS NULL THEN l.fence ELSE r.fence END AS id,
                            CASE WHEN r.execution_id IS NULL THEN l.runner_id ELSE r.runner_id END AS runner_id) AS run
 CROSS JOIN LATERAL (SELECT l.result #>> '{statements,-1,tag}' AS tag, l.result #>> '{statements,-1,rows}' AS rows) AS last
 WHERE run.id IS NOT NULL
   -- What was said of a runid before a run had it says nothing of that run.
   AND NOT EXISTS (SELECT FROM cron_internal.deleted_run d
                    WHERE d.runid = run.id AND d.owner IN (0, l.owner)
                      AND d.deleted_at >= COALESCE(CASE WHEN r.execution_id IS NULL THEN l.started_at ELSE r.started_at END, '-infinity'))
   AND (l.owner = (SELECT r.oid FROM pg_catalog.pg_roles r WHERE r.rolname = current_user)
        OR EXISTS (SELECT FROM pg_catalog.pg_roles a WHERE a.rolname = current_user AND (a.rolsuper OR a.rolbypassrls)));

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
    RETURN NEW;
END
$$;

-- What was imported from pg_cron before.
SELECT cron_internal.adopt(NULL, NULL, false);
