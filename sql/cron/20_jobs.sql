-- What changes a job. Nobody but perform() calls these, which has found out who asks. The messages and their codes are pg_cron's (XX000
-- where it gives none), because that is what its clients know.

CREATE FUNCTION cron_internal.is_superuser(role text) RETURNS boolean
    LANGUAGE sql STABLE SET search_path = pg_catalog, pg_temp AS
$$ SELECT EXISTS (SELECT FROM pg_roles r WHERE r.rolname = role AND r.rolsuper) $$;
COMMENT ON FUNCTION cron_internal.is_superuser IS 'internal: whether a role may do everything';

-- Row-level security lets these see and change the rows of others.
CREATE FUNCTION cron_internal.sees_all(role text) RETURNS boolean
    LANGUAGE sql STABLE SET search_path = pg_catalog, pg_temp AS
$$ SELECT EXISTS (SELECT FROM pg_roles r WHERE r.rolname = role AND (r.rolsuper OR r.rolbypassrls)) $$;
COMMENT ON FUNCTION cron_internal.sees_all IS 'internal: whether a role works on the rows of others';

-- Whose job it is to be; `doing` is what only a superuser may with the name of another role.
CREATE FUNCTION cron_internal.job_owner(caller text, username text, doing text) RETURNS regrole
    LANGUAGE plpgsql STABLE SET search_path = pg_catalog, pg_temp AS
$$
DECLARE
    role pg_roles;
BEGIN
    IF username IS NOT NULL AND NOT cron_internal.is_superuser(caller) THEN
        RAISE EXCEPTION 'must be superuser to %', doing USING ERRCODE = 'internal_error';
    END IF;
    SELECT * INTO role FROM pg_roles r WHERE r.rolname = COALESCE(username, caller);
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

CREATE FUNCTION cron_internal.check_connect(owner regrole, database text) RETURNS void
    LANGUAGE plpgsql STABLE SET search_path = pg_catalog, pg_temp AS
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
    LANGUAGE plpgsql STABLE SET search_path = pg_catalog, pg_temp AS
$$
BEGIN
    IF database <> current_database() THEN
        RAISE EXCEPTION 'cannot run jobs in database "%" from database "%"', database, current_database()
            USING ERRCODE = 'feature_not_supported',
                  HINT = 'Run CREATE EXTENSION scheduler_cron CASCADE in that database, and call cron.schedule there.';
    ELSIF nodeport <> current_setting('port')::integer OR nodename !~ '^(|localhost|127\.0\.0\.1|::1|/.*)$' THEN
        RAISE EXCEPTION 'cannot run jobs on another server (% port %)', nodename, nodeport
            USING ERRCODE = 'feature_not_supported', HINT = 'Schedule the job on that server.';
    END IF;
END
$$;
COMMENT ON FUNCTION cron_internal.check_here IS 'internal: an error where a job is to run elsewhere';

-- Names in sched are those of all roles, and there are other schedules: the first that is free.
CREATE FUNCTION cron_internal.free_name(jobid bigint, jobname text, owner regrole) RETURNS text
    LANGUAGE plpgsql VOLATILE SET search_path = pg_catalog, pg_temp AS
$$
DECLARE
    wanted CONSTANT text := COALESCE(CASE WHEN octet_length(jobname) BETWEEN 1 AND 900 THEN jobname END, 'cron job ' || jobid);
    name   text := wanted;
    n      integer := 1;
BEGIN
    -- Whoever wants the same name waits until we have it or not.
    PERFORM pg_advisory_xact_lock(hashtextextended('scheduler_cron ' || wanted, 0));
    WHILE EXISTS (SELECT FROM sched.schedule s WHERE s.schedule_name = name) OR EXISTS (SELECT FROM sched.job j WHERE j.job_name = name) LOOP
        name := wanted || CASE n WHEN 1 THEN ' of ' || left(pg_get_userbyid(owner), 63) ELSE ' (' || n || ')' END;
        n := n + 1;
    END LOOP;
    RETURN name;
END
$$;
COMMENT ON FUNCTION cron_internal.free_name IS 'internal: what a new job is called in sched';

CREATE FUNCTION cron_internal.warn(clock text, schedule text) RETURNS void
    LANGUAGE plpgsql SET search_path = pg_catalog, pg_temp AS
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
CREATE FUNCTION cron_internal.create_schedule(name text, clock text, command text, active boolean) RETURNS bigint
    LANGUAGE sql SET search_path = pg_catalog, pg_temp SET client_min_messages = error AS
$$
    -- Plans that are missed are forgotten, and a run that is still going on delays the next, as there.
    SELECT sched.schedule_sql(name, clock, command, time_zone => cron_internal.zone(), overlap => 'buffer_one', catch_up => 'skip_missed',
                              own_transactions => sched_internal.command_statements(command) = 1, enabled => active)
$$;
COMMENT ON FUNCTION cron_internal.create_schedule IS 'internal: the schedule and the job of a row';

CREATE FUNCTION cron_internal.alter_schedule(name text, clock text, active boolean) RETURNS void
    LANGUAGE sql SET search_path = pg_catalog, pg_temp SET client_min_messages = error AS
$$
    SELECT sched.alter_schedule(name, clock => clock, time_zone => CASE WHEN clock IS NOT NULL THEN cron_internal.zone() END, enabled => active)
$$;
COMMENT ON FUNCTION cron_internal.alter_schedule IS 'internal: another clock, in the zone of now; NULL = unchanged';

-- NULL = unchanged.
CREATE FUNCTION cron_internal.change(job_id bigint, schedule text, command text, owner regrole, active boolean) RETURNS void
    LANGUAGE plpgsql SET search_path = pg_catalog, pg_temp AS
$$
#variable_conflict use_column
DECLARE
    new_clock CONSTANT text := cron_internal.required_clock(change.schedule);
    found     record;
BEGIN
    SELECT s.schedule_name, s.job_name INTO STRICT found
      FROM cron_internal.entry e
      JOIN sched.schedule s ON s.schedule_id = e.schedule_id
     WHERE e.jobid = job_id
       FOR UPDATE OF e;
    IF change.owner IS NOT NULL THEN
        UPDATE cron_internal.entry e SET owner = change.owner WHERE e.jobid = job_id;
        UPDATE sched.job j SET owner = change.owner, updated_at = clock_timestamp() WHERE j.job_name = found.job_name AND j.owner <> change.owner;
    END IF;
    IF new_clock IS NOT NULL THEN
        UPDATE cron_internal.entry e SET schedule = change.schedule, clock = new_clock WHERE e.jobid = job_id;
        PERFORM cron_internal.warn(new_clock, change.schedule);
    END IF;
    IF change.command IS NOT NULL THEN
        PERFORM sched.alter_job(found.job_name, command => change.command,
                                own_transactions => sched_internal.command_statements(change.command) = 1);
    END IF;
    IF new_clock IS NOT NULL OR active IS NOT NULL THEN
        PERFORM cron_internal.alter_schedule(found.schedule_name, new_clock, change.active);
    END IF;
END
$$;
COMMENT ON FUNCTION cron_internal.change IS 'internal: changes the job of a row';

-- A new row, or another clock and command for the one of that name and role. jobid NULL = the next one.
CREATE FUNCTION cron_internal.schedule(jobid bigint, jobname text, schedule text, command text, owner regrole, active boolean,
                                       nodename text, nodeport integer) RETURNS bigint
    LANGUAGE plpgsql SET search_path = pg_catalog, pg_temp AS
$$
#variable_conflict use_column
DECLARE
    new_clock CONSTANT text := cron_internal.required_clock(schedule.schedule);
    entry     cron_internal.entry;
    new_name  text;
    new_id    bigint;
BEGIN
    -- Somebody has dropped its schedule in sched.
    UPDATE cron_internal.entry e SET removed_at = clock_timestamp()
     WHERE e.jobname = schedule.jobname AND e.owner = schedule.owner AND e.removed_at IS NULL
       AND NOT EXISTS (SELECT FROM sched.schedule s WHERE s.schedule_id = e.schedule_id);
    INSERT INTO cron_internal.entry AS e (jobid, jobname, owner, schedule, clock, command, nodename, nodeport)
    VALUES (COALESCE(schedule.jobid, nextval('cron.jobid_seq')), schedule.jobname, schedule.owner, schedule.schedule, new_clock,
            schedule.command, schedule.nodename, schedule.nodeport)
        ON CONFLICT (jobname, owner) WHERE removed_at IS NULL DO UPDATE SET schedule = excluded.schedule
    RETURNING * INTO entry;
    IF entry.schedule_id IS NOT NULL THEN
        PERFORM cron_internal.change(entry.jobid, schedule.schedule, schedule.command, NULL, NULL);
        RETURN entry.jobid;
    END IF;
    PERFORM cron_internal.warn(new_clock, schedule.schedule);
    new_name := cron_internal.free_name(entry.jobid, entry.jobname, entry.owner);
    new_id := cron_internal.create_schedule(new_name, new_clock, entry.command, schedule.active);
    -- It was made by the owner of this extension, in this transaction: nobody has seen it.
    UPDATE sched.job j SET owner = entry.owner WHERE j.job_name = new_name AND j.owner <> entry.owner;
    UPDATE cron_internal.entry e SET schedule_id = new_id, key = s.key
      FROM sched.schedule s
     WHERE e.jobid = entry.jobid AND s.schedule_id = new_id;
    RETURN entry.jobid;
END
$$;
COMMENT ON FUNCTION cron_internal.schedule IS 'internal: makes a row with its job and schedule, or changes it';

CREATE FUNCTION cron_internal.unschedule(job_id bigint) RETURNS void
    LANGUAGE plpgsql SET search_path = pg_catalog, pg_temp AS
$$
DECLARE
    found record;
BEGIN
    SELECT s.schedule_name, s.job_name, j.command INTO STRICT found
      FROM cron_internal.entry e
      JOIN sched.schedule s ON s.schedule_id = e.schedule_id
      JOIN sched.job j ON j.job_name = s.job_name
     WHERE e.jobid = job_id
       FOR UPDATE OF e;
    UPDATE cron_internal.entry e SET removed_at = clock_timestamp(), command = found.command WHERE e.jobid = job_id;
    IF found.schedule_name = found.job_name THEN
        PERFORM sched.unschedule(found.schedule_name);
    ELSE
        -- somebody has renamed it
        PERFORM sched.drop_schedule(found.schedule_name, cancel_pending => true);
        IF NOT EXISTS (SELECT FROM sched.schedule s WHERE s.job_name = found.job_name) THEN
            PERFORM sched.drop_job(found.job_name);
        END IF;
    END IF;
    -- Those of whose runs the ledger has none any more.
    DELETE FROM cron_internal.entry e
     WHERE e.removed_at < clock_timestamp() - current_setting('sched.history_retention')::interval - interval '1 day';
END
$$;
COMMENT ON FUNCTION cron_internal.unschedule IS 'internal: drops the job and the schedule of a row';
