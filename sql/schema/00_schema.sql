-- CREATE EXTENSION has set the same (the control file's schema). Said again, so that whoever reads or checks the script need not know:
-- nothing that somebody put into another schema is ever found by a name without one.
SET LOCAL search_path = pg_catalog, pg_temp;

-- A plain CREATE SCHEMA on purpose: a schema of this name that somebody planted before us must make CREATE EXTENSION
-- fail, or its owner could own what we put into it.
CREATE SCHEMA sched;
CREATE SCHEMA sched_internal;
COMMENT ON SCHEMA sched IS 'scheduler: clocks, schedules, leases and the ledger of executions';
COMMENT ON SCHEMA sched_internal IS 'internal: what the scheduler''s own triggers, views and scripts call; nothing of it is for users';

-- Another number with each release that changes a table: a later library goes on with the objects of an earlier release that has the same
-- tables. The library reads the body, and calls nothing (src/pg/objects_version.rs).
CREATE FUNCTION sched_internal.table_layout() RETURNS integer LANGUAGE sql IMMUTABLE PARALLEL SAFE SET search_path = pg_catalog, pg_temp AS 'SELECT 2';
COMMENT ON FUNCTION sched_internal.table_layout() IS 'internal: releases of one number have the same tables';

-- Here, because defaults of columns and arguments call it.
CREATE FUNCTION sched.now() RETURNS timestamptz VOLATILE PARALLEL RESTRICTED LANGUAGE c AS 'MODULE_PATHNAME', 'now_wrapper';

-- Names, payloads and messages are read as UTF-8. (SQL_ASCII stores what it is given: there only UTF-8 is taken.)
DO $$
BEGIN
    IF pg_catalog.getdatabaseencoding() NOT IN ('UTF8', 'SQL_ASCII') THEN
        RAISE feature_not_supported USING
            MESSAGE = pg_catalog.format('scheduler needs a database in UTF8, not %s', pg_catalog.getdatabaseencoding()),
            HINT = 'Create a database with ENCODING ''UTF8'' TEMPLATE template0 for it.';
    END IF;
END
$$;

-- By row: what logical replication brings calls no trigger of a statement. TRUNCATE tells all sessions by itself.
CREATE FUNCTION sched_internal.table_changed() RETURNS trigger
    LANGUAGE plpgsql SECURITY DEFINER SET search_path = pg_catalog, pg_temp AS
$$
BEGIN
    PERFORM sched_internal.table_is_new(TG_RELID);
    RETURN NULL;
END
$$;
COMMENT ON FUNCTION sched_internal.table_changed() IS 'internal: sessions that remember something of the table read it again';
