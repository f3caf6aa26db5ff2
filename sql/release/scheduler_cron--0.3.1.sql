-- The API of pg_cron 1.6 on top of sched. The parts of this folder, one after the other, are the install script of scheduler_cron.
-- Whoever has USAGE on the schema cron may schedule, and needs no right in sched: so what changes something runs as the owner of this
-- extension, for the role that calls. Of cron_internal nobody else can reach but `call`, into which calls are inserted.
--
-- Bodies are read when they run: each function pins how strings are read, or a client's standard_conforming_strings would say so.
SET LOCAL search_path = pg_catalog, pg_temp;

DO $$
BEGIN
    IF EXISTS (SELECT FROM pg_catalog.pg_extension WHERE extname = 'pg_cron') THEN
        RAISE EXCEPTION 'pg_cron is created in this database'
            USING ERRCODE = 'duplicate_object',
                  HINT = 'Both have the schema cron. Take its jobs over with sched.import_from(''pg_cron''), and then DROP EXTENSION pg_cron.';
    END IF;
    IF pg_catalog.to_regprocedure('sched_internal.alter_sql_job(text, text)') IS NULL THEN
        RAISE EXCEPTION 'the extension scheduler is too old for scheduler_cron'
            USING ERRCODE = 'object_not_in_prerequisite_state', HINT = 'Run ALTER EXTENSION scheduler UPDATE.';
    END IF;
END
$$;

-- A plain CREATE SCHEMA: one that somebody else has planted must make it fail.
CREATE SCHEMA cron;
CREATE SCHEMA cron_internal;
COMMENT ON SCHEMA cron IS 'the functions and views of pg_cron, on top of scheduler; USAGE is the right to schedule';
COMMENT ON SCHEMA cron_internal IS 'internal: what only the functions and views of the schema cron use';

CREATE SEQUENCE cron.jobid_seq;
COMMENT ON SEQUENCE cron.jobid_seq IS 'draws jobid';

-- What pg_cron's table has and sched has not. Whether there is still a schedule, whose it is, what it runs and whether it is paused is
-- said by sched alone, so that both ways of changing it agree, and rights are asked of nobody else.
CREATE TABLE cron_internal.entry (
    jobid       bigint      PRIMARY KEY,
    schedule_id bigint,
    key         uuid,
    jobname     text,
    owner       regrole     NOT NULL,
    schedule    text        NOT NULL,
    clock       text        NOT NULL,
    command     text        NOT NULL,
    nodename    text        NOT NULL,
    nodeport    integer     NOT NULL,
    removed_at  timestamptz
);
CREATE UNIQUE INDEX jobname_username_uniq ON cron_internal.entry (jobname, owner) WHERE removed_at IS NULL;
CREATE UNIQUE INDEX entry_schedule ON cron_internal.entry (schedule_id) WHERE removed_at IS NULL;
CREATE INDEX entry_removed_at ON cron_internal.entry (removed_at) WHERE removed_at IS NOT NULL;
COMMENT ON TABLE cron_internal.entry IS 'the rows of cron.job; those with removed_at tell of their runs as long as the ledger has some';
COMMENT ON COLUMN cron_internal.entry.schedule_id IS 'the row of sched.schedule; where there is none any more, somebody has dropped it there';
COMMENT ON COLUMN cron_internal.entry.key IS 'what the ledger has its runs by, with schedule_id';
COMMENT ON COLUMN cron_internal.entry.schedule IS 'as it was said';
COMMENT ON COLUMN cron_internal.entry.clock IS 'what that was made to for sched';
COMMENT ON COLUMN cron_internal.entry.owner IS 'whose it was when we last wrote the row: a name is there once for each; whose it is says sched.job';
COMMENT ON COLUMN cron_internal.entry.command IS 'what that owner had it run: for those who may read it when it is removed';

-- The ledger keeps what its guarantees rest on. What somebody deletes from cron.job_run_details is not shown any more.
CREATE TABLE cron_internal.deleted_run (
    runid      bigint      NOT NULL,
    owner      oid         NOT NULL,
    deleted_at timestamptz NOT NULL DEFAULT pg_catalog.clock_timestamp(),
    PRIMARY KEY (runid, owner)
);
CREATE INDEX deleted_run_deleted_at ON cron_internal.deleted_run (deleted_at);
COMMENT ON COLUMN cron_internal.deleted_run.owner IS 'of which role''s runs it says so; 0 = of all, which only a superuser has said';
COMMENT ON TABLE cron_internal.deleted_run IS 'runs that were deleted from cron.job_run_details, until the ledger has forgotten them too';

SELECT pg_catalog.pg_extension_config_dump('cron.jobid_seq', '');
-- As sched dumps its jobs: an owner whose role was dropped may be a stranger in the copy.
SELECT pg_catalog.pg_extension_config_dump('cron_internal.entry', 'WHERE owner::text !~ ''^[0-9]''');
SELECT pg_catalog.pg_extension_config_dump('cron_internal.deleted_run', '');
-- pg_cron's schedules as clocks of sched, by the rules of its entry.c and job_metadata.c. NULL is what it would refuse.

-- A name of the field, or digits. (C reads more than nine of them as something else.)
CREATE FUNCTION cron_internal.number(word text, low integer, names text[]) RETURNS integer
    LANGUAGE sql IMMUTABLE SET search_path = pg_catalog, pg_temp SET standard_conforming_strings = on AS
$$
    SELECT CASE WHEN lower(word) = ANY (names) THEN low + array_position(names, lower(word)) - 1
                WHEN word ~ '^[0-9]{1,9}$' THEN word::integer END
$$;
COMMENT ON FUNCTION cron_internal.number IS 'internal: a value of a field, NULL where it is none';

-- What follows an item up to the next blank is ignored there. A range that runs backwards is refused here: it sets the bits that its
-- bytes happen to have.
CREATE FUNCTION cron_internal.field(field text, low integer, high integer, names text[]) RETURNS text
    LANGUAGE plpgsql IMMUTABLE SET search_path = pg_catalog, pg_temp SET standard_conforming_strings = on AS
$$
DECLARE
    rest   text := field;
    items  text := '';
    part   text[];
    first  integer;
    last   integer;
    step   integer;
BEGIN
    LOOP
        -- all of it, the star, the number, its range, the end of that, its step, the number of that
        part := regexp_match(rest, '^((?:(\*)|([A-Za-z0-9]+)(?:(-)([A-Za-z0-9]*))?)(?:(/)([A-Za-z0-9]*))?)');
        IF part IS NULL THEN
            RETURN NULL;
        END IF;
        first := CASE WHEN part[2] IS NULL THEN cron_internal.number(part[3], low, names) ELSE low END;
        last := CASE WHEN part[2] IS NOT NULL THEN high WHEN part[4] IS NULL THEN first ELSE cron_internal.number(part[5], low, names) END;
        step := CASE WHEN part[6] IS NULL THEN 1 ELSE cron_internal.number(part[7], 0, '{}') END;
        IF (first >= low AND last <= high AND first <= last AND step BETWEEN 1 AND high) IS NOT TRUE
           OR (part[2] IS NULL AND part[4] IS NULL AND part[6] IS NOT NULL) THEN
            RETURN NULL;
        END IF;
        items := items || CASE WHEN part[2] IS NOT NULL THEN '*' WHEN part[4] IS NOT NULL THEN first || '-' || last ELSE first::text END
                       || CASE WHEN step > 1 THEN '/' || step ELSE '' END;
        rest := substr(rest, length(part[1]) + 1);
        EXIT WHEN NOT starts_with(rest, ',');
        items := items || ',';
        rest := substr(rest, 2);
    END LOOP;
    RETURN items;
END
$$;
COMMENT ON FUNCTION cron_internal.field IS 'internal: a field of pg_cron in the words of sched, NULL where it is none';

CREATE FUNCTION cron_internal.clock(schedule text, zone text, both_days boolean) RETURNS text
    LANGUAGE plpgsql IMMUTABLE STRICT SET search_path = pg_catalog, pg_temp SET standard_conforming_strings = on AS
$$
DECLARE
    -- blank lines and comments before it are skipped
    rest    text := regexp_replace(schedule, '^([ \t]*(#[^\n]*)?\n)*[ \t]*', '');
    lows    CONSTANT integer[] := '{0, 0, 1, 1, 0}';
    highs   CONSTANT integer[] := '{59, 23, 31, 12, 7}';
    names   text[];
    chunk   text;
    fields  text[] := '{}';
    seconds text;
BEGIN
    seconds := (regexp_match(schedule, '^\s*\+?([0-9]{1,9})\s*second(?:s\s*)?$', 'i'))[1];
    IF seconds IS NOT NULL THEN
        RETURN CASE WHEN seconds::integer BETWEEN 1 AND 59 THEN format('every %s second%s after start', seconds::integer, CASE WHEN seconds::integer > 1 THEN 's' ELSE '' END) END;
    END IF;
    IF octet_length(schedule) >= 1000 THEN
        RETURN NULL;
    END IF;
    IF starts_with(rest, '@') THEN
        CASE substring(rest FROM '^@([^ \t\n]*)')
            WHEN 'reboot', 'restart' THEN RETURN 'never';
            WHEN 'yearly', 'annually' THEN fields := '{0, 0, 1, 1, *}';
            WHEN 'monthly' THEN fields := '{0, 0, 1, *, *}';
            WHEN 'weekly' THEN fields := '{0, 0, *, *, 0}';
            WHEN 'daily', 'midnight' THEN fields := '{0, 0, *, *, *}';
            WHEN 'hourly' THEN fields := '{0, *, *, *, *}';
            ELSE RETURN NULL;
        END CASE;
    ELSE
        -- what follows the fifth is ignored
        FOR i IN 1..5 LOOP
            chunk := substring(rest FROM '^[^ \t\n]*');
            rest := substr(rest, length(chunk) + 1);
            IF i = 3 AND starts_with(chunk, '$') THEN
                chunk := CASE WHEN chunk = '$' AND rest ~ '^[ \t]' THEN 'L' END;
            ELSE
                names := CASE i WHEN 4 THEN '{jan,feb,mar,apr,may,jun,jul,aug,sep,oct,nov,dec}'
                                WHEN 5 THEN '{sun,mon,tue,wed,thu,fri,sat}' ELSE '{}' END;
                chunk := cron_internal.field(chunk, lows[i], highs[i], names);
            END IF;
            IF chunk IS NULL THEN
                RETURN NULL;
            END IF;
            fields := fields || chunk;
            rest := ltrim(rest, E' \t');
        END LOOP;
    END IF;
    IF both_days AND NOT starts_with(fields[3], '*') AND NOT starts_with(fields[5], '*') THEN
        fields[5] := '+' || fields[5];
    END IF;
    -- pg_cron looks at the zone's wall clock once a minute, for each of its schedules. So does sched for those that begin with a star in
    -- the minute or the hour, and one that has a 0 there can be said so.
    IF zone !~* '^(etc/)?(gmt|utc|uct|zulu|universal|greenwich)$' AND NOT starts_with(fields[1], '*') AND NOT starts_with(fields[2], '*') THEN
        IF fields[1] ~ '(^|,)0(,|-|$)' THEN
            fields[1] := '*/60,' || fields[1];
        ELSIF fields[2] ~ '(^|,)0(,|-|$)' THEN
            fields[2] := '*/24,' || fields[2];
        END IF;
    END IF;
    RETURN array_to_string(fields, ' ');
END
$$;
COMMENT ON FUNCTION cron_internal.clock IS 'internal: a schedule of pg_cron as a clock of sched; NULL where it would refuse it';

CREATE FUNCTION cron_internal.zone() RETURNS text
    LANGUAGE sql STABLE SET search_path = pg_catalog, pg_temp SET standard_conforming_strings = on AS
$$ SELECT COALESCE(NULLIF(current_setting('cron.timezone', true), ''), 'GMT') $$;
COMMENT ON FUNCTION cron_internal.zone IS 'internal: in which zone a schedule is read';

CREATE FUNCTION cron_internal.required_clock(schedule text) RETURNS text
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
COMMENT ON FUNCTION cron_internal.required_clock IS 'internal: the same with cron.timezone and cron.match_dom_and_dow; 22023 where there is none';
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
            USING ERRCODE = 'feature_not_supported', HINT = 'Schedule the job on that server.';
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
    UPDATE cron_internal.entry e SET removed_at = clock_timestamp()
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
COMMENT ON FUNCTION cron_internal.unschedule IS 'internal: drops the job and the schedule of a row whose lock we have';
-- What clients read and write. A view's conditions run as the reader, so current_user is the reader's role. security_barrier: no function
-- of the reader sees a row before that test.

CREATE VIEW cron.job WITH (security_barrier) AS
SELECT e.jobid, CASE WHEN s.clock = e.clock THEN e.schedule ELSE s.clock END AS schedule, j.command, e.nodename, e.nodeport,
       pg_catalog.current_database()::text AS database, pg_catalog.pg_get_userbyid(j.owner)::text AS username,
       s.enabled AND s.ownership = 'owned' AS active, e.jobname
  FROM cron_internal.entry e
  JOIN sched.schedule s ON s.schedule_id = e.schedule_id
  JOIN sched.job j ON j.job_name = s.job_name
 WHERE e.removed_at IS NULL
   AND (j.owner = (SELECT r.oid FROM pg_catalog.pg_roles r WHERE r.rolname = current_user)
        OR EXISTS (SELECT FROM pg_catalog.pg_roles r WHERE r.rolname = current_user AND (r.rolsuper OR r.rolbypassrls)));
ALTER VIEW cron.job ALTER COLUMN nodename SET DEFAULT 'localhost';
ALTER VIEW cron.job ALTER COLUMN nodeport SET DEFAULT pg_catalog.current_setting('port')::integer;
ALTER VIEW cron.job ALTER COLUMN database SET DEFAULT pg_catalog.current_database();
ALTER VIEW cron.job ALTER COLUMN username SET DEFAULT current_user;
ALTER VIEW cron.job ALTER COLUMN active SET DEFAULT true;
COMMENT ON VIEW cron.job IS 'the jobs of the role that reads, of all roles for a superuser, with the columns of pg_cron';

-- A run is one lease: its fence is the runid. What waits to run is not shown, as there. The command is the job's, or was at its end: who had it
-- run before it was another's reads no command of theirs.
CREATE VIEW cron.job_run_details WITH (security_barrier) AS
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
COMMENT ON VIEW cron.job_run_details IS 'the runs of the jobs of cron.job, also of those that were removed, with the columns of pg_cron';

-- How a call finds out who calls. Functions that run as their owner do not see that, and an argument could be forged. So callers insert into
-- this view, whose first trigger runs as the role that inserts and writes it down, whatever was said.
CREATE VIEW cron_internal.call AS
SELECT NULL::text AS action, NULL::bigint AS id, NULL::text AS jobname, NULL::text AS schedule, NULL::text AS command, NULL::text AS database,
       NULL::text AS username, NULL::boolean AS active, NULL::text AS nodename, NULL::integer AS nodeport,
       NULL::bigint AS result, NULL::oid AS caller
 WHERE false;
COMMENT ON VIEW cron_internal.call IS 'internal: what the functions of the schema cron insert their calls into; always empty';
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
COMMENT ON FUNCTION cron_internal.delete_run IS 'internal: DELETE of cron.job_run_details';

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
-- What was imported from pg_cron before this extension came.
SELECT cron_internal.adopt(NULL, NULL, true);
