-- What a router needs: a database without the extension from which PL/Proxy calls the servers that share the scopes. Made from the catalog, so
-- that each of our functions has its stub; `how` says how one is called, and a function that it does not name is an error here.
CREATE FUNCTION sched.router_sql(cluster text) RETURNS text
    LANGUAGE plpgsql STABLE SET search_path = pg_catalog, pg_temp AS
$router$
DECLARE
    how jsonb := '{
        "everywhere": ["adopt", "alter_many", "declare_schedules", "define_job", "dispatch_due", "drop_elsewhere", "health", "healthy", "is_home",
            "mark_stale_as_failed", "pause_queue", "prune", "rebuild", "resume_queue"],
        "anywhere": ["next_time", "now", "preview", "validate"], "not offered": ["advance", "drain_sql", "reset", "test_mode"],
        "scope": ["attempts_since_success", "create_schedule", "due_plans", "enqueue", "executions_of", "latest_plan", "schedule_sql", "try_claim"],
        "schedule": ["alter_schedule", "backfill", "drop_schedule", "explain", "fire_now", "pause", "report_fire", "resume", "runs_of", "timeline", "unschedule"],
        "job": ["alter_job"],
        "execution": ["alter_execution", "cancel", "finish_failure", "finish_success", "heartbeat", "snooze"],
        "server": ["acknowledge", "assert_lease", "compare", "grant_enqueue", "grant_queue", "hand_back", "import_from", "metrics", "openmetrics", "report", "router_sql",
            "set_buckets", "take_over", "this_run"],
        "own": ["bucket", "buckets", "cancel_many", "claim", "create_schedules", "drop_job", "enqueue_many", "finish_success_many", "grant_monitor", "grant_use",
            "grant_worker", "heartbeat_many", "import_crontab", "recent", "revoke_all", "test_job"]
    }';
    -- The row that a call is about: of which argument, by which column of which view. All servers are asked, and the call is made where the
    -- row is. It gets the row's own column, so that no plan makes the call first.
    rows constant jsonb := '{
        "schedule": ["schedule_name", "schedule_name", "sched.schedules", " AND v.state <> ''elsewhere''"],
        "job": ["job_name", "job_name", "sched.jobs", ""],
        "execution": ["execution_id", "id", "sched.execution", ""]
    }';
    own jsonb := jsonb_build_object(
        'buckets', $$RETURN (SELECT range_agg(b.buckets::int4multirange) FROM sched_router.buckets_of_all() AS b);$$,
        'claim', $$IF $2 IS NULL OR $2 < 1 THEN
        RETURN QUERY SELECT * FROM sched_router.claim_at(sched_router.anywhere(), $1, $2, $3, $4);
        RETURN;
    END IF;
    -- One server after the other: no more are handed out than are asked for.
    FOR place IN SELECT s.place FROM sched_router.servers() AS s ORDER BY random() LOOP
        BEGIN
            RETURN QUERY SELECT * FROM sched_router.claim_at(place, $1, ($2 - done)::integer, $3, $4);
            GET DIAGNOSTICS got = ROW_COUNT;
        EXCEPTION WHEN OTHERS THEN
            -- What others have handed out is not lost for it.
            IF done = 0 THEN
                RAISE;
            END IF;
            got := 0;
        END;
        done := done + got;
        EXIT WHEN done >= $2;
    END LOOP;$$,
        'cancel_many', $$IF $4 IS NULL OR $4 < 1 THEN
        RETURN (SELECT a.r FROM sched_router.cancel_many_at(sched_router.anywhere(), $1, $2, $3, $4) AS a (r));
    END IF;
    FOR place IN SELECT s.place FROM sched_router.servers() AS s LOOP
        done := done + (SELECT a.r FROM sched_router.cancel_many_at(place, $1, $2, $3, ($4 - done)::integer) AS a (r));
        EXIT WHEN done >= $4;
    END LOOP;
    RETURN done;$$,
        'create_schedules', $$IF $1 IS NULL OR jsonb_typeof($1) <> 'array' THEN
        RETURN (SELECT a.r FROM sched_router.create_schedules_at(sched_router.anywhere(), $1) AS a (r));
    END IF;
    FOR part IN
        WITH elements AS MATERIALIZED (
            SELECT e.spec, e.number,
                   sched.bucket(COALESCE(e.spec ->> 'scope_kind', 'schedule'), COALESCE(e.spec ->> 'scope_id', e.spec ->> 'schedule_name')) AS bucket
              FROM jsonb_array_elements($1) WITH ORDINALITY AS e (spec, number))
        SELECT p.place, jsonb_agg(e.spec ORDER BY e.number) AS specs, array_agg(e.number ORDER BY e.number) AS numbers
          FROM elements AS e
          LEFT JOIN sched_router.places_of_buckets(ARRAY(SELECT DISTINCT e.bucket FROM elements AS e WHERE e.bucket IS NOT NULL)) AS p ON p.bucket = e.bucket
         GROUP BY p.place
         ORDER BY p.place NULLS FIRST
    LOOP
        BEGIN
            done := done + (SELECT a.r FROM sched_router.create_schedules_at(COALESCE(part.place, sched_router.anywhere()), part.specs) AS a (r));
        EXCEPTION WHEN OTHERS THEN
            -- The server counts in its part.
            GET STACKED DIAGNOSTICS message = MESSAGE_TEXT, hint = PG_EXCEPTION_HINT;
            words := regexp_match(message, '^(.*?\melement )([0-9]{1,9})\M(.*)$');
            IF words IS NULL THEN
                RAISE;
            END IF;
            RAISE USING ERRCODE = SQLSTATE, MESSAGE = concat(words[1], part.numbers[words[2]::integer], words[3]), HINT = hint;
        END;
    END LOOP;
    RETURN done;$$,
        'enqueue_many', $$IF $5 IS NULL OR $4 IS NULL OR $2 IS NULL OR cardinality($5) <> cardinality($2) OR array_position($5, NULL) IS NOT NULL
       OR cardinality($3) <> cardinality($2) OR cardinality($6) <> cardinality($2) THEN
        RETURN QUERY SELECT * FROM sched_router.enqueue_many_at(sched_router.anywhere(), $1, $2, $3, $4, $5, $6, $7, $8, $9);
        RETURN;
    END IF;
    ids := array_fill(NULL::uuid, ARRAY[cardinality($5)]);
    FOR part IN
        SELECT p.place, array_agg(i.number ORDER BY i.number) AS numbers, array_agg(i.payload ORDER BY i.number) AS payloads,
               array_agg(i.plan_time ORDER BY i.number) AS plan_times, array_agg(i.id ORDER BY i.number) AS scope_ids,
               array_agg(i.run_at ORDER BY i.number) AS run_ats
          FROM unnest($2, $3, $5, $6) WITH ORDINALITY AS i (payload, plan_time, id, run_at, number)
          JOIN sched_router.places_of_buckets(ARRAY(SELECT DISTINCT sched.bucket($4, u.id) FROM unnest($5) AS u (id))) AS p ON p.bucket = sched.bucket($4, i.id)
         GROUP BY p.place
         ORDER BY p.place
    LOOP
        SELECT array_agg(a.r ORDER BY a.n) INTO some_ids
          FROM sched_router.enqueue_many_at(part.place, $1, part.payloads, CASE WHEN $3 IS NOT NULL THEN part.plan_times END, $4, part.scope_ids,
                   CASE WHEN $6 IS NOT NULL THEN part.run_ats END, $7, $8, $9) WITH ORDINALITY AS a (r, n);
        FOR n IN 1 .. cardinality(part.numbers) LOOP
            ids[part.numbers[n]] := some_ids[n];
        END LOOP;
    END LOOP;
    RETURN QUERY SELECT i.id FROM unnest(ids) WITH ORDINALITY AS i (id, n) ORDER BY i.n;$$,
        'drop_job', $$used_by := (SELECT a.r FROM sched_router.users_of_job($1) AS a (r) LIMIT 1);
    IF used_by IS NOT NULL THEN
        RAISE dependent_objects_still_exist USING MESSAGE = format('job "%s" is used by schedule "%s"', $1, used_by),
            HINT = 'Drop its schedules first, or give them another job.';
    END IF;
    RETURN (SELECT bool_or(a.r) FROM sched_router.drop_job_all($1) AS a (r));$$,
        'test_job', $$RETURN QUERY
    SELECT * FROM sched_router.test_job_at(COALESCE((SELECT min(p.place) FROM sched_router.places_of_job($1) AS p (place)), sched_router.anywhere()), $1, $2, $3);$$,
        'finish_success_many', $$-- Not held is what no server has.
    RETURN QUERY
    WITH servers AS MATERIALIZED (SELECT row_number() OVER () AS server, a.ids FROM sched_router.finish_success_many_all($1, $2) AS a (ids)),
         lost AS (SELECT u.id FROM servers AS s CROSS JOIN LATERAL unnest(s.ids) AS u (id)
                   GROUP BY u.id HAVING count(DISTINCT s.server) = (SELECT count(*) FROM servers))
    SELECT i.id FROM unnest($1) WITH ORDINALITY AS i (id, n) JOIN lost AS l ON l.id = i.id ORDER BY i.n;$$,
        'heartbeat_many', $$-- Lost is what no server has.
    RETURN QUERY
    SELECT a.execution_id, CASE WHEN bool_or(a.answer = 'cancel') THEN 'cancel' WHEN bool_or(a.answer = 'ok') THEN 'ok' ELSE 'lost' END
      FROM sched_router.heartbeat_many_all($1, $2) AS a
     GROUP BY a.number, a.execution_id
     ORDER BY a.number;$$,
        'import_crontab', $$place := (
        WITH servers AS MATERIALIZED (SELECT s.place, s.buckets::int4multirange AS buckets FROM sched_router.servers() AS s)
        SELECT min(lower(s.buckets * o.buckets)) FROM servers AS s JOIN servers AS o ON s.place < o.place AND s.buckets && o.buckets);
    IF place IS NOT NULL THEN
        RAISE object_not_in_prerequisite_state USING MESSAGE = format('bucket %s is on 2 servers', place),
            HINT = 'Nothing was written. sched.buckets() of each server says which ones it has.';
    END IF;
    -- Each server takes the lines that are its own; what is said of a line by all is an error of it.
    RETURN QUERY
    SELECT DISTINCT ON (a.line) a.* FROM sched_router.import_crontab_all($1, $2, $3) AS a
     ORDER BY a.line, a.note IS NOT NULL, a.note LIKE '%which is not one of this server''s%';$$,
        'recent', $$RETURN QUERY SELECT a.* FROM sched_router.recent_all($1, $2) AS a ORDER BY a.id DESC LIMIT $2;$$,
        'grant_use', $$PERFORM sched_router.grant_use_all($1);
    PERFORM sched_router.grant_stubs($1);$$,
        'grant_monitor', $$PERFORM sched_router.grant_monitor_all($1);
    PERFORM sched_router.grant_stubs($1);$$,
        'grant_worker', $$PERFORM sched_router.grant_worker_all($1);$$,
        'revoke_all', $$PERFORM sched_router.revoke_all_all($1);
    PERFORM sched_router.revoke_stubs($1);$$);
    declared constant text := 'DECLARE
    place integer;
    part record;
    done bigint := 0;
    got bigint;
    ids uuid[];
    some_ids uuid[];
    used_by text;
    message text;
    hint text;
    words text[];
    answer text;
';
    name      text;
    f         record;
    v         record;
    rule      text;
    script    text;
    stub      text;
    behind_views text := '';
    inner_result text;
    passed    text;
    called    text;
    place     text;
    found_by  text[];
    named     integer;
    calls     text;
    on_all    text;
    where_it_is text;
    anywhere  text;
    body      text;
BEGIN
    IF cluster IS NULL OR cluster = '' THEN
        RAISE null_value_not_allowed USING MESSAGE = 'cluster must not be NULL or empty', HINT = 'Pass the name of the PL/Proxy cluster.';
    END IF;
    -- It stands in comments and in bodies of functions.
    IF cluster ~ '[^[:alnum:]_. -]' THEN
        RAISE invalid_parameter_value USING MESSAGE = format('"%s" cannot be the name of a cluster', regexp_replace(left(cluster, 40), '[[:cntrl:]]', '?', 'g')),
            HINT = 'Name the PL/Proxy cluster with letters, digits, underscores, points, hyphens and blanks.';
    END IF;
    script := format($$-- Made by sched.router_sql(%1$L), version %2$s. For a superuser, in a database of its own; it may be run again.
DO $do$
BEGIN
    IF EXISTS (SELECT FROM pg_catalog.pg_extension e WHERE e.extname = 'scheduler') THEN
        RAISE object_not_in_prerequisite_state USING MESSAGE = 'this database has the extension itself',
            HINT = 'A router is a database without it: create one, and run this there.';
    END IF;
END
$do$;
CREATE EXTENSION IF NOT EXISTS plproxy;
CREATE SCHEMA IF NOT EXISTS sched;
CREATE SCHEMA IF NOT EXISTS sched_router;
REVOKE ALL ON SCHEMA sched, sched_router FROM PUBLIC;
-- What an earlier run has made.
DO $do$
DECLARE
    object text;
BEGIN
    -- Some of these return rows of views, which call those of sched_router.
    FOR object IN SELECT p.oid::pg_catalog.regprocedure::text FROM pg_catalog.pg_proc p
                   WHERE p.pronamespace = 'sched'::pg_catalog.regnamespace AND pg_catalog.obj_description(p.oid, 'pg_proc') LIKE 'router: %%'
                   ORDER BY p.proname = 'now' -- what defaults of arguments call
    LOOP
        EXECUTE 'DROP FUNCTION ' || object;
    END LOOP;
    FOR object IN SELECT c.oid::pg_catalog.regclass::text FROM pg_catalog.pg_class c
                   WHERE c.relkind = 'v' AND c.relnamespace = 'sched'::pg_catalog.regnamespace AND pg_catalog.obj_description(c.oid, 'pg_class') LIKE 'router: %%'
    LOOP
        EXECUTE 'DROP VIEW ' || object;
    END LOOP;
    FOR object IN SELECT p.oid::pg_catalog.regprocedure::text FROM pg_catalog.pg_proc p
                   WHERE p.pronamespace = 'sched_router'::pg_catalog.regnamespace AND pg_catalog.obj_description(p.oid, 'pg_proc') LIKE 'router: %%'
    LOOP
        EXECUTE 'DROP FUNCTION ' || object;
    END LOOP;
END
$do$;
CREATE FUNCTION sched.bucket(scope_kind text, scope_id text) RETURNS integer LANGUAGE sql IMMUTABLE STRICT PARALLEL SAFE AS
$f$ SELECT ((pg_catalog.get_byte(h.hash, 0) << 8) + pg_catalog.get_byte(h.hash, 1)) & 1023
      FROM pg_catalog.sha256(pg_catalog.convert_to($1, 'UTF8') || '\x00'::bytea || pg_catalog.convert_to($2, 'UTF8')) AS h (hash) $f$;
CREATE FUNCTION sched_router.anywhere() RETURNS integer LANGUAGE sql VOLATILE AS $f$ SELECT pg_catalog.floor(pg_catalog.random() * 1024)::integer $f$;
-- One row for each server that has buckets: the first of them, by which it is called, and all.
CREATE FUNCTION sched_router.buckets_of_all() RETURNS TABLE (place integer, buckets text) LANGUAGE plproxy AS
$f$ CLUSTER %1$L; RUN ON ALL; SELECT pg_catalog.lower(b.buckets) AS place, b.buckets::text AS buckets FROM sched.buckets() AS b (buckets) WHERE NOT pg_catalog.isempty(b.buckets); $f$;
CREATE FUNCTION sched_router.places_that_lead(places integer[]) RETURNS SETOF integer LANGUAGE plproxy AS
$f$ CLUSTER %1$L; SPLIT places; RUN ON places; SELECT pg_catalog.lower(b.buckets) FROM sched.buckets() AS b (buckets) WHERE pg_catalog.lower(b.buckets) = ANY (places); $f$;
-- The same, after a look whether the partition of that bucket is this server.
CREATE FUNCTION sched_router.servers() RETURNS TABLE (place integer, buckets text) LANGUAGE plpgsql AS
$f$
#variable_conflict use_column
DECLARE
    places integer[];
    ranges text[];
    wrong integer;
BEGIN
    SELECT pg_catalog.array_agg(b.place), pg_catalog.array_agg(b.buckets) INTO places, ranges FROM sched_router.buckets_of_all() AS b;
    IF places IS NOT NULL THEN
        wrong := (SELECT pg_catalog.min(w.place)
                    FROM (SELECT u.place FROM pg_catalog.unnest(places) AS u (place) EXCEPT ALL SELECT l.place FROM sched_router.places_that_lead(places) AS l (place)) AS w);
    END IF;
    IF wrong IS NOT NULL THEN
        RAISE object_not_in_prerequisite_state USING MESSAGE = pg_catalog.format('partition p%%1$s is not the one server that has bucket %%1$s', wrong),
            HINT = 'Compare the PL/Proxy cluster with sched.buckets() of each server.';
    END IF;
    RETURN QUERY SELECT u.place, u.buckets FROM ROWS FROM (pg_catalog.unnest(places), pg_catalog.unnest(ranges)) AS u (place, buckets);
END
$f$;
-- The server of each bucket, for those who write to several.
CREATE FUNCTION sched_router.places_of_buckets(buckets integer[]) RETURNS TABLE (bucket integer, place integer) LANGUAGE plpgsql AS
$f$
#variable_conflict use_column
DECLARE
    found record;
BEGIN
    FOR found IN
        SELECT u.bucket, pg_catalog.count(s.place) AS count, pg_catalog.min(s.place) AS place
          FROM pg_catalog.unnest($1) AS u (bucket)
          LEFT JOIN sched_router.servers() AS s ON s.buckets::pg_catalog.int4multirange OPERATOR(pg_catalog.@>) u.bucket
         GROUP BY u.bucket
    LOOP
        IF found.count <> 1 THEN
            RAISE object_not_in_prerequisite_state USING
                MESSAGE = CASE found.count WHEN 0 THEN pg_catalog.format('no server has bucket %%s', found.bucket)
                                           ELSE pg_catalog.format('bucket %%s is on %%s servers', found.bucket, found.count) END,
                HINT = 'Nothing was written. sched.buckets() of each server says which ones it has.';
        END IF;
        bucket := found.bucket;
        place := found.place;
        RETURN NEXT;
    END LOOP;
END
$f$;
CREATE FUNCTION sched_router.places_of_job(text) RETURNS SETOF integer LANGUAGE plproxy AS
$f$ CLUSTER %1$L; RUN ON ALL; SELECT pg_catalog.lower(sched.buckets()) FROM sched.jobs j WHERE j.job_name = $1; $f$;
CREATE FUNCTION sched_router.users_of_job(text) RETURNS SETOF text LANGUAGE plproxy AS
$f$ CLUSTER %1$L; RUN ON ALL; SELECT s.schedule_name FROM sched.schedules s WHERE s.job_name = $1 OR s.alert_job = $1; $f$;
CREATE FUNCTION sched_router.finish_success_many_all(uuid[], uuid[]) RETURNS SETOF uuid[] LANGUAGE plproxy AS
$f$ CLUSTER %1$L; RUN ON ALL; SELECT ARRAY(SELECT f.r FROM sched.finish_success_many($1, $2) AS f (r)); $f$;
CREATE FUNCTION sched_router.heartbeat_many_all(uuid[], uuid[]) RETURNS TABLE (number bigint, execution_id uuid, answer text) LANGUAGE plproxy AS
$f$ CLUSTER %1$L; RUN ON ALL; SELECT f.number, f.execution_id, f.answer FROM sched.heartbeat_many($1, $2) WITH ORDINALITY AS f (execution_id, answer, number); $f$;
CREATE FUNCTION sched_router.schedules_named(text) RETURNS SETOF integer LANGUAGE plproxy AS
$f$ CLUSTER %1$L; RUN ON ALL; SELECT 1 FROM sched.schedules s WHERE s.schedule_name = $1 AND s.state <> 'elsewhere'; $f$;
CREATE FUNCTION sched_router.has_schedule(name text) RETURNS boolean LANGUAGE plpgsql AS
$f$
DECLARE
    count bigint := (SELECT pg_catalog.count(*) FROM sched_router.schedules_named($1));
BEGIN
    IF count > 1 THEN
        RAISE cardinality_violation USING MESSAGE = pg_catalog.format('schedule "%%s" is on %%s servers', $1, count),
            HINT = 'Connect to the one that is meant: a name is unique on each server only.';
    END IF;
    RETURN count = 1;
END
$f$;
-- The right to the stubs, and to the PL/Proxy cluster, which PL/Proxy asks for where a foreign server is one.
CREATE FUNCTION sched_router.grant_stubs(role regrole) RETURNS void LANGUAGE plpgsql AS
$f$
BEGIN
    EXECUTE pg_catalog.format('GRANT USAGE ON SCHEMA sched, sched_router TO %%1$s; GRANT EXECUTE ON ALL FUNCTIONS IN SCHEMA sched, sched_router TO %%1$s;'
        'GRANT SELECT ON ALL TABLES IN SCHEMA sched TO %%1$s', $1);
    EXECUTE COALESCE((SELECT pg_catalog.format('GRANT USAGE ON FOREIGN SERVER %%I TO %%s', f.srvname, $1) FROM pg_catalog.pg_foreign_server f WHERE f.srvname = %1$L), '');
END
$f$;
CREATE FUNCTION sched_router.revoke_stubs(role regrole) RETURNS void LANGUAGE plpgsql AS
$f$
BEGIN
    EXECUTE pg_catalog.format('REVOKE ALL ON SCHEMA sched, sched_router FROM %%1$s; REVOKE ALL ON ALL FUNCTIONS IN SCHEMA sched, sched_router FROM %%1$s;'
        'REVOKE ALL ON ALL TABLES IN SCHEMA sched, sched_router FROM %%1$s', $1);
    EXECUTE COALESCE((SELECT pg_catalog.format('REVOKE ALL ON FOREIGN SERVER %%I FROM %%s', f.srvname, $1) FROM pg_catalog.pg_foreign_server f WHERE f.srvname = %1$L), '');
END
$f$;
$$, cluster, (SELECT e.extversion FROM pg_extension e WHERE e.extname = 'scheduler'));
    FOR f IN
        SELECT p.oid, p.proname::text AS name, pg_get_function_arguments(p.oid) AS arguments, pg_get_function_identity_arguments(p.oid) AS identity,
               -- The router has no view yet when it makes what a stub calls.
               COALESCE((SELECT 'TABLE(' || string_agg(format('%I %s', a.attname, format_type(a.atttypid, a.atttypmod)), ', ' ORDER BY a.attnum) || ')'
                           FROM pg_type t
                           JOIN pg_attribute a ON a.attrelid = t.typrelid AND a.attnum > 0
                          WHERE t.oid = p.prorettype AND p.proretset AND t.typnamespace = 'sched'::regnamespace),
                        pg_get_function_result(p.oid)) AS result, pg_get_function_result(p.oid) AS own_result, p.proretset AS is_set, p.prorettype = 'void'::regtype AS is_void, p.prorettype AS type, p.pronargs AS count,
               ARRAY(SELECT format_type(t.type, NULL) FROM unnest(p.proargtypes) WITH ORDINALITY AS t (type, n) ORDER BY t.n) AS types,
               array_position(p.proargnames, 'scope_kind') AS scope_kind, array_position(p.proargnames, 'scope_id') AS scope_id,
               array_position(p.proargnames, 'schedule_name') AS schedule_name, p.proargnames AS names
          FROM pg_proc p
         WHERE p.pronamespace = 'sched'::regnamespace
         ORDER BY p.proname <> 'now', p.proname -- what defaults of arguments call comes first
    LOOP
        SELECT h.rule INTO rule FROM jsonb_each(how) AS h (rule, names) WHERE h.names ? f.name;
        IF rule IS NULL THEN
            RAISE internal_error USING MESSAGE = format('router_sql does not know how function %s is called', f.name);
        END IF;
        CONTINUE WHEN f.name = 'bucket' OR rule = 'not offered';
        inner_result := CASE WHEN f.is_void THEN 'SETOF integer' WHEN f.is_set THEN f.result ELSE 'SETOF ' || f.result END;
        found_by := ARRAY(SELECT w.word FROM jsonb_array_elements_text(rows -> rule) AS w (word));
        named := array_position(f.names, found_by[1]);
        passed := array_to_string(ARRAY(SELECT '$' || n FROM generate_series(1, f.count) AS n), ', ');
        -- How PL/Proxy calls it: on all, where the row is, or at a place that is the first argument.
        FOREACH place IN ARRAY CASE WHEN rule = 'server' OR f.name IN ('buckets', 'finish_success_many', 'heartbeat_many') THEN '{}'::text[]
                                    WHEN rule = 'everywhere' OR f.name IN ('drop_job', 'grant_use', 'grant_monitor', 'grant_worker', 'revoke_all', 'recent', 'import_crontab')
                                    THEN '{all}'
                                    WHEN rows ? rule THEN '{at,where}' ELSE '{at}' END
        LOOP
            called := array_to_string(ARRAY(
                SELECT CASE WHEN place = 'where' AND n = named THEN 'v.' || found_by[2] ELSE format('$%s::%s', n + (place = 'at')::integer, f.types[n]) END
                  FROM generate_series(1, f.count) AS n), ', ');
            script := script || format(E'CREATE FUNCTION sched_router.%I(%s) RETURNS %s LANGUAGE plproxy AS\n$f$ CLUSTER %L; RUN ON %s; SELECT %s FROM %ssched.%I(%s) AS f%s%s; $f$;\n',
                f.name || '_' || place, array_to_string(CASE place WHEN 'at' THEN 'integer'::text || f.types ELSE f.types END, ', '), inner_result, cluster,
                CASE place WHEN 'at' THEN '$1' ELSE 'ALL' END,
                CASE WHEN f.is_void THEN '1' WHEN f.result LIKE 'TABLE(%' THEN 'f.*' ELSE 'f.r' END,
                CASE place WHEN 'where' THEN found_by[3] || ' AS v CROSS JOIN LATERAL ' ELSE '' END, f.name, called,
                CASE WHEN f.is_void OR f.result LIKE 'TABLE(%' THEN '' ELSE ' (r)' END,
                CASE place WHEN 'where' THEN format(' WHERE v.%s = $%s', found_by[2], named) || found_by[4] ELSE '' END);
        END LOOP;
        -- How the stub calls that. (A name that is NULL, and a job or an execution that is nowhere, gets the error or the answer of any server.)
        calls := CASE WHEN f.is_void THEN 'PERFORM * FROM %s;' WHEN f.is_set THEN 'RETURN QUERY SELECT * FROM %s;' ELSE 'RETURN (SELECT a.r FROM %s AS a (r) LIMIT 1);' END;
        on_all := format('sched_router.%I(%s)', f.name || '_all', passed);
        where_it_is := format('sched_router.%I(%s)', f.name || '_where', passed);
        anywhere := format(calls, format('sched_router.%I(%s)', f.name || '_at', concat_ws(', ', 'sched_router.anywhere()', NULLIF(passed, ''))));
        body := CASE rule
            WHEN 'own' THEN own ->> f.name
            WHEN 'server' THEN format($$RAISE feature_not_supported USING MESSAGE = %L, HINT = 'Connect to the server itself.';$$,
                format('sched.%s cannot be called through a router', f.name))
            WHEN 'anywhere' THEN anywhere
            WHEN 'everywhere' THEN CASE WHEN f.is_void OR f.is_set THEN format(calls, on_all)
                ELSE format('RETURN (SELECT %s(a.r) FROM %s AS a (r));',
                    CASE WHEN f.type <> 'boolean'::regtype THEN 'sum' WHEN f.name LIKE 'resume%' THEN 'bool_or' ELSE 'bool_and' END, on_all) END
            WHEN 'scope' THEN format(calls, format('sched_router.%I(COALESCE(sched.bucket(%s, %s), sched_router.anywhere()), %s)', f.name || '_at',
                COALESCE('$' || f.scope_kind, '''schedule'''),
                CASE WHEN f.scope_id IS NULL THEN '$' || f.schedule_name WHEN f.name = 'create_schedule' THEN format('COALESCE($%s, $%s)', f.scope_id, f.schedule_name)
                     ELSE '$' || f.scope_id END, passed))
            WHEN 'schedule' THEN format($$IF $%1$s IS NULL THEN
        %2$s
    ELSIF sched_router.has_schedule($%1$s) THEN
        %3$s
    ELSE
        %4$s
    END IF;$$, named, anywhere, format(calls, where_it_is),
                CASE f.type WHEN 'boolean'::regtype THEN 'RETURN false;'
                     ELSE format($$RAISE undefined_object USING MESSAGE = format('schedule "%%s" does not exist', $%s), HINT = 'Look for its name in the view sched.schedules.';$$, named) END)
            ELSE format(CASE WHEN f.is_void THEN $$PERFORM * FROM %1$s;
    IF NOT FOUND THEN
        %2$s
    END IF;$$ ELSE $$answer := (SELECT %3$s(a.r) FROM %1$s AS a (r));
    IF answer IS NULL THEN
        %2$s
    END IF;
    RETURN answer;$$ END, where_it_is, anywhere, CASE f.type WHEN 'boolean'::regtype THEN 'bool_or' ELSE 'min' END)
        END;
        -- PL/pgSQL knows no column of a result by the name of an argument, as claim has one.
        IF f.result LIKE 'TABLE(%' THEN
            script := script || format(E'CREATE FUNCTION sched_router.%I(%s) RETURNS %s LANGUAGE plpgsql SET search_path = pg_catalog, pg_temp AS\n$f$\n#variable_conflict use_column\n%sBEGIN\n    %s\nEND\n$f$;\n',
                f.name || '_stub', array_to_string(f.types, ', '), f.result, declared, body);
            stub := format(E'CREATE FUNCTION sched.%I(%s) RETURNS %s LANGUAGE sql AS $f$ SELECT * FROM sched_router.%I(%s) $f$;\n',
                f.name, f.arguments, f.own_result, f.name || '_stub', passed);
        ELSE
            stub := format(E'CREATE FUNCTION sched.%I(%s) RETURNS %s LANGUAGE plpgsql SET search_path = pg_catalog, pg_temp AS\n$f$\n#variable_conflict use_column\n%sBEGIN\n    %s\nEND\n$f$;\n',
                f.name, f.arguments, f.result, declared, body);
        END IF;
        stub := stub || format(E'COMMENT ON FUNCTION sched.%I(%s) IS %L;\n',
            f.name, f.identity, 'router: ' || rule || '. ' || COALESCE(obj_description(f.oid, 'pg_proc'), ''));
        script := script || CASE WHEN f.result = f.own_result THEN stub ELSE '' END;
        behind_views := behind_views || CASE WHEN f.result = f.own_result THEN '' ELSE stub END;
    END LOOP;
    FOR v IN
        SELECT c.relname::text AS name, string_agg(format('%I %s', a.attname, CASE a.atttypid WHEN 'regrole'::regtype THEN 'text' ELSE format_type(a.atttypid, a.atttypmod) END), ', ' ORDER BY a.attnum) AS columns,
               string_agg(format(CASE a.atttypid WHEN 'regrole'::regtype THEN 'v.%1$I::text AS %1$I' ELSE 'v.%1$I' END, a.attname), ', ' ORDER BY a.attnum) AS selected,
               obj_description(c.oid, 'pg_class') AS comment
          FROM pg_class c
          JOIN pg_attribute a ON a.attrelid = c.oid AND a.attnum > 0
         WHERE c.relnamespace = 'sched'::regnamespace AND c.relkind = 'v'
         GROUP BY c.oid, c.relname
         ORDER BY c.relname
    LOOP
        script := script || format(E'CREATE FUNCTION sched_router.%I() RETURNS TABLE (%s) LANGUAGE plproxy AS\n$f$ CLUSTER %L; RUN ON ALL; SELECT %s FROM sched.%I v%s; $f$;\n',
            'view_' || v.name, v.columns, cluster, v.selected, v.name, CASE v.name WHEN 'schedules' THEN ' WHERE v.state <> ''elsewhere''' ELSE '' END);
        script := script || CASE v.name
            WHEN 'queues' THEN E'CREATE VIEW sched.queues AS\nSELECT v.queue, bool_or(v.paused) AS paused, sum(v.ready)::bigint AS ready, sum(v.delayed)::bigint AS delayed, sum(v.retrying)::bigint AS retrying, sum(v.running)::bigint AS running, min(v.oldest_ready_at) AS oldest_ready_at\n  FROM sched_router.view_queues() AS v GROUP BY v.queue;\n'
            WHEN 'jobs' THEN E'CREATE VIEW sched.jobs AS\nSELECT DISTINCT ON (v.job_name) v.* FROM sched_router.view_jobs() AS v ORDER BY v.job_name, v.updated_at DESC;\n'
            ELSE format(E'CREATE VIEW sched.%I AS SELECT * FROM sched_router.%I();\n', v.name, 'view_' || v.name) END
            || format(E'COMMENT ON VIEW sched.%I IS %L;\n', v.name, 'router: of all servers. ' || COALESCE(v.comment, ''));
    END LOOP;
    RETURN script || behind_views || $$-- Not PUBLIC's; those who had it before have it again.
DO $do$
DECLARE
    object text;
    grantee text;
BEGIN
    FOR object IN SELECT p.oid::pg_catalog.regprocedure::text FROM pg_catalog.pg_proc p
                   WHERE p.pronamespace = 'sched_router'::pg_catalog.regnamespace OR (p.pronamespace = 'sched'::pg_catalog.regnamespace AND p.proname = 'bucket')
    LOOP
        EXECUTE 'COMMENT ON FUNCTION ' || object || ' IS ''router: internal''';
    END LOOP;
    REVOKE ALL ON ALL FUNCTIONS IN SCHEMA sched, sched_router FROM PUBLIC;
    REVOKE ALL ON ALL TABLES IN SCHEMA sched FROM PUBLIC;
    FOR grantee IN
        SELECT DISTINCT a.grantee::pg_catalog.regrole::text
          FROM pg_catalog.pg_namespace n, pg_catalog.aclexplode(n.nspacl) AS a
         WHERE n.nspname = 'sched' AND a.grantee NOT IN (0, n.nspowner)
    LOOP
        PERFORM sched_router.grant_stubs(grantee::pg_catalog.regrole);
    END LOOP;
END
$do$;
$$;
END
$router$;
