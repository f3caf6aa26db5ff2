-- What changes a job. Nobody but perform() calls these, which has found out who asks. The messages and their codes are pg_cron's (XX000
-- where it gives none), because that is what its clients know.

CREATE FUNCTION cron_internal.is_superuser(role oid) RETURNS boolean
    LANGUAGE sql STABLE SET search_path = pg_catalog, pg_temp SET standard_conforming_strings = on AS
$$ SELECT EXISTS (SELECT FROM pg_roles r WHERE r.oid = role AND r.rolsuper) $$;
COMMENT ON FUNCTION cron_internal.is_superuser IS 'internal: whether a role may do everything';

-- Row-level security lets these see and change the rows of others.
CREATE FUNCTION cron_internal.sees_all(role oid) RETURNS boolean
    LANGUAGE sql STABLE SET search_path = pg_catalog, pg_temp SET standard_conforming_strings = on AS
$$ SELECT EXISTS (SELECT FROM pg_roles r WHERE r.oid = role AND (r.rolsuper OR r.rolbypassrls)) $$;
COMMENT ON FUNCTION cron_internal.sees_all IS 'internal: whether a role works on the rows of others';

-- Whose job it is to be; `doing` is what only a superuser may with the name of another role.
CREATE FUNCTION cron_internal.job_owner(caller oid, username text, doing text) RETURNS oid
    LANGUAGE plpgsql STABLE SET search_path = pg_catalog, pg_temp SET standard_conforming_strings = on AS
$$
DECLARE
    role pg_roles;
BEGIN
    IF username IS NOT NULL AND NOT cron_internal.is_superuser(caller) THEN
        RAISE EXCEPTION 'must be superuser to %', doing USING ERRCODE = 'internal_error';
    END IF;
    SELECT * INTO role FROM pg_roles r WHERE CASE WHEN username IS NULL THEN r.oid = caller ELSE r.rolname = username END;
    IF role.oid IS NULL THEN
        RAISE EXCEPTION 'role "%" does not exist', username USING ERRCODE = 'internal_error';
    ELSIF username IS NOT NULL AND NOT role.rolcanlogin THEN
        RAISE EXCEPTION 'role "%" can not log in', username
            USING ERRCODE = 'internal_error', DETAIL = 'Jobs may only be run by roles that have the LOGIN attribute.';
    ELSIF role.rolsuper AND NOT COALESCE(NULLIF(current_setting('cron.enable_superuser_jobs', true), ''), 'on')::boolean THEN
        RAISE EXCEPTION 'cannot schedule jobs as superuser'
            USING ERRCODE = 'insufficient_privilege',
                  DETAIL = 'Scheduling jobs as superuser is disallowed when cron.enable_superuser_jobs is set to off.';
    END IF;
    RETURN role.oid;
END
$$;
COMMENT ON FUNCTION cron_internal.job_owner IS 'internal: the role that a job runs as; an error where it may not be';

CREATE FUNCTION cron_internal.check_connect(owner oid, database text) RETURNS void
    LANGUAGE plpgsql STABLE SET search_path = pg_catalog, pg_temp SET standard_conforming_strings = on AS
$$
BEGIN
    IF NOT EXISTS (SELECT FROM pg_database d WHERE d.datname = database) THEN
        RAISE EXCEPTION 'database "%" does not exist', database USING ERRCODE = '3D000';
    ELSIF NOT has_database_privilege(owner, database, 'CONNECT') THEN
        RAISE EXCEPTION 'User % does not have CONNECT privilege on %', pg_get_userbyid(owner), database USING ERRCODE = 'internal_error';
    END IF;
END
$$;
COMMENT ON FUNCTION cron_internal.check_connect IS 'internal: an error where a role may not connect to a database';

CREATE FUNCTION cron_internal.check_here(database text, nodename text, nodeport integer) RETURNS void
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
COMMENT ON FUNCTION cron_internal.check_here IS 'internal: an error where a job is to run elsewhere';

CREATE FUNCTION cron_internal.warn(clock text, schedule text) RETURNS void
    LANGUAGE plpgsql SET search_path = pg_catalog, pg_temp SET standard_conforming_strings = on AS
$$
BEGIN
    IF clock = 'never' THEN
        RAISE WARNING 'schedule % never runs: nothing is run when the server starts', btrim(schedule)
            USING HINT = 'Run the job with sched.fire_now, or schedule it by a time.';
    END IF;
END
$$;
COMMENT ON FUNCTION cron_internal.warn IS 'internal: says what does not run';

-- sched would warn of a clock without a time as well.
CREATE FUNCTION cron_internal.alter_schedule(name text, clock text, active boolean) RETURNS void
    LANGUAGE sql SET search_path = pg_catalog, pg_temp SET standard_conforming_strings = on SET client_min_messages = error AS
$$
    SELECT sched.alter_schedule(name, clock => clock, time_zone => CASE WHEN clock IS NOT NULL THEN cron_internal.zone() END, enabled => active)
$$;
COMMENT ON FUNCTION cron_internal.alter_schedule IS 'internal: another clock, in the zone of now; NULL = unchanged';

CREATE TYPE cron_internal.locked_job AS (
    jobid bigint, schedule_name text, job_name text, owner oid, schedule text, command text, nodename text, nodeport integer, active boolean,
    jobname text
);
COMMENT ON TYPE cron_internal.locked_job IS 'internal: a job that nobody else changes until this transaction ends';

-- A row of another role is not locked: until the end of its transaction nobody else could change it. Whoever asks for another right than that of
-- the owner asks after this too: until then the owner may become another.
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

-- The job of a name that a role has.
CREATE FUNCTION cron_internal.job_named(jobname text, owner oid) RETURNS bigint
    LANGUAGE sql VOLATILE SET search_path = pg_catalog, pg_temp SET standard_conforming_strings = on AS
$$
    SELECT min(e.jobid)
      FROM cron_internal.entry e
      JOIN sched.schedule s ON s.schedule_id = e.schedule_id
      JOIN sched.job j ON j.job_name = s.job_name
     WHERE e.jobname = job_named.jobname AND j.owner = job_named.owner AND e.removed_at IS NULL
$$;
COMMENT ON FUNCTION cron_internal.job_named IS 'internal: the jobid of the job of this name of a role; NULL where it has none';

-- What was changed in sched: schedules that are gone, jobs that belong to somebody else now. Of two of one name and one role the one that came
-- to it gets its jobid behind the name.
CREATE FUNCTION cron_internal.follow(jobname text, owner oid) RETURNS void
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
COMMENT ON FUNCTION cron_internal.follow IS 'internal: brings the rows of this name and role up to what sched says';

-- Names in sched are those of all roles, and there are other schedules: the first that is free. Nothing that exists is changed, whatever this
-- transaction sees of it. The caller has this name of its role (entry's index). So a job of the name that is not committed is another role's,
-- which may stay so for as long as that role likes: it is passed over after lock_timeout, like one that is there. The last name cannot be taken.
CREATE FUNCTION cron_internal.create_schedule(jobid bigint, jobname text, clock text, command text, owner oid, active boolean) RETURNS bigint
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
COMMENT ON FUNCTION cron_internal.create_schedule IS 'internal: the schedule and the job of a row; its schedule_id';

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

-- Changes a job whose lock we have, and whose owner was asked. NULL = unchanged.
CREATE FUNCTION cron_internal.change(found cron_internal.locked_job, schedule text, command text, owner oid, active boolean) RETURNS void
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
COMMENT ON FUNCTION cron_internal.change IS 'internal: changes the job of a row';

-- A new row, or another clock and command for the one of that name and role. jobid NULL = the next one; then there is none of the name.
CREATE FUNCTION cron_internal.schedule(jobid bigint, jobname text, schedule text, command text, owner oid, active boolean,
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
COMMENT ON FUNCTION cron_internal.schedule IS 'internal: makes a row with its job and schedule, or changes it';

CREATE FUNCTION cron_internal.unschedule(found cron_internal.locked_job) RETURNS void
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
COMMENT ON FUNCTION cron_internal.unschedule IS 'internal: drops the job and the schedule of a row whose lock we have';
