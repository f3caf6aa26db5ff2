-- From 0.3.1. What is new stands here in the words of sql/schema and of the generated script (tools/release-sql.sh diff shows them); a test
-- compares the result with a new extension. docs/internals/updates.md says how to add to it.
\echo Use "ALTER EXTENSION scheduler UPDATE" to load this file. \quit

-- To the end of the transaction. What is named without a schema is Postgres' own.
SET LOCAL search_path = pg_catalog, pg_temp;

-- Whoever owns a schema of ours or something in it can have put code of his there, which what follows would run as the superuser who updates.
-- So this comes before all else, and looks at nothing but catalogs.
DO $$
DECLARE
    other record;
BEGIN
    SELECT pg_catalog.pg_describe_object(o.classid, o.objid, 0) AS object, o.owner::pg_catalog.regrole AS owner
      INTO other
      FROM (SELECT n.tableoid, n.oid, n.nspowner FROM pg_catalog.pg_namespace n WHERE n.nspname IN ('sched', 'sched_internal')
            UNION ALL
            SELECT e.tableoid, e.oid, e.extowner FROM pg_catalog.pg_extension e WHERE e.extname = 'scheduler'
            UNION ALL
            SELECT c.tableoid, c.oid, c.relowner FROM pg_catalog.pg_class c WHERE c.relnamespace IN ('sched'::pg_catalog.regnamespace, 'sched_internal'::pg_catalog.regnamespace)
            UNION ALL
            SELECT p.tableoid, p.oid, p.proowner FROM pg_catalog.pg_proc p WHERE p.pronamespace IN ('sched'::pg_catalog.regnamespace, 'sched_internal'::pg_catalog.regnamespace)
           ) AS o (classid, objid, owner)
     WHERE NOT EXISTS (SELECT FROM pg_catalog.pg_roles r WHERE r.oid = o.owner AND r.rolsuper)
     ORDER BY o.classid = 'pg_catalog.pg_namespace'::pg_catalog.regclass DESC, o.classid = 'pg_catalog.pg_extension'::pg_catalog.regclass DESC
     LIMIT 1;
    IF FOUND THEN
        RAISE object_not_in_prerequisite_state USING
            MESSAGE = pg_catalog.format('%s belongs to %s, who is no superuser: the update would run what he may have put there', other.object, other.owner),
            HINT = pg_catalog.format('If %s is trusted with that, make a superuser its owner first (ALTER ... OWNER TO, or REASSIGN OWNED BY %s TO ...), then update again.', other.owner, other.owner);
    END IF;
END
$$;

-- The statements below lock what they alter. Without a limit they would wait for a transaction that has read one of these relations, and
-- each client would wait behind them. So the locks come first, and an error names the process that holds one. A lock_timeout of the session
-- is kept.
SELECT pg_catalog.set_config('lock_timeout', '5s', true) WHERE pg_catalog.current_setting('lock_timeout') = '0';
DO $$
DECLARE
    relation text;
    blockers text;
    hint     text;
BEGIN
    -- Each table and view that this script alters, drops or replaces.
    FOREACH relation IN ARRAY ARRAY[
        'sched.schedule'
    ]::pg_catalog.text[] LOOP
        BEGIN
            EXECUTE pg_catalog.format('LOCK TABLE %s IN ACCESS EXCLUSIVE MODE', relation);
        EXCEPTION WHEN lock_not_available THEN
            SELECT pg_catalog.string_agg(DISTINCT pg_catalog.format('process %s (%s, transaction since %s)', l.pid, coalesce(a.usename, a.backend_type, 'a prepared transaction'),
                                                                    coalesce(pg_catalog.date_trunc('second', a.xact_start)::pg_catalog.text, 'an unknown time')), ', ')
                   FILTER (WHERE l.pid IS NOT NULL),
                   CASE WHEN pg_catalog.bool_and(l.pid IS NULL)
                        THEN 'Finish the prepared transactions in pg_prepared_xacts, then update again.'
                        ELSE pg_catalog.format('Wait for its end, or end it by pg_terminate_backend(%s), then update again. A higher lock_timeout in this session waits longer.', pg_catalog.min(l.pid))
                   END
              INTO blockers, hint
              FROM pg_catalog.pg_locks l
              LEFT JOIN pg_catalog.pg_stat_activity a ON a.pid = l.pid
             WHERE l.granted AND l.locktype = 'relation' AND l.pid IS DISTINCT FROM pg_catalog.pg_backend_pid()
               AND l.database = (SELECT d.oid FROM pg_catalog.pg_database d WHERE d.datname = pg_catalog.current_database())
               AND EXISTS (SELECT FROM pg_catalog.pg_class c
                            WHERE c.oid = l.relation AND c.relnamespace IN ('sched'::pg_catalog.regnamespace, 'sched_internal'::pg_catalog.regnamespace));
            RAISE lock_not_available USING
                MESSAGE = pg_catalog.format('the update needs a lock on %s, which is held by %s', relation, coalesce(blockers, 'a prepared transaction')),
                HINT = coalesce(hint, 'Update again.');
        END;
    END LOOP;
END
$$;

-- Here comes what is new.

-- What is new belongs to whoever runs the update, and all else to the schema's owner, whom the library takes for the owner of everything.
-- (What belongs to a column or table, as an identity's sequence does, follows it.) It comes before the rights, which name the owner.
DO $$
DECLARE
    keeper pg_catalog.regrole;
    object text;
BEGIN
    SELECT n.nspowner INTO STRICT keeper FROM pg_catalog.pg_namespace n WHERE n.nspname = 'sched';
    FOR object IN
        SELECT o.name
          FROM pg_catalog.pg_depend d
          JOIN pg_catalog.pg_extension e ON e.oid = d.refobjid AND e.extname = 'scheduler'
          JOIN (SELECT n.tableoid, n.oid, n.nspowner, 'SCHEMA ' || n.oid::pg_catalog.regnamespace FROM pg_catalog.pg_namespace n
                UNION ALL
                SELECT c.tableoid, c.oid, c.relowner,
                       CASE c.relkind WHEN 'S' THEN 'SEQUENCE ' WHEN 'v' THEN 'VIEW ' ELSE 'TABLE ' END || c.oid::pg_catalog.regclass
                  FROM pg_catalog.pg_class c
                 WHERE c.relkind <> 'S'
                    OR NOT EXISTS (SELECT FROM pg_catalog.pg_depend i WHERE i.classid = c.tableoid AND i.objid = c.oid AND i.deptype IN ('a', 'i'))
                UNION ALL
                SELECT p.tableoid, p.oid, p.proowner, 'FUNCTION ' || p.oid::pg_catalog.regprocedure FROM pg_catalog.pg_proc p
                UNION ALL
                SELECT t.tableoid, t.oid, t.typowner, 'TYPE ' || t.oid::pg_catalog.regtype FROM pg_catalog.pg_type t
                 WHERE t.typrelid = 0 AND t.typcategory <> 'A' -- those of rows and arrays go with what they are of
               ) AS o (classid, objid, owner, name) ON o.classid = d.classid AND o.objid = d.objid
         WHERE d.refclassid = e.tableoid AND d.deptype = 'e' AND o.owner <> keeper
    LOOP
        EXECUTE pg_catalog.format('ALTER %s OWNER TO %s', object, keeper);
    END LOOP;
END
$$;

-- New objects belong to nobody but the extension's owner: not to PUBLIC, and not to those whom ALTER DEFAULT PRIVILEGES has given
-- something. Each of them is named here, by its kind and name.
DO $$
DECLARE
    object  text;
    grantee text;
BEGIN
    FOREACH object IN ARRAY ARRAY[
    ]::pg_catalog.text[] LOOP
        EXECUTE pg_catalog.format('REVOKE ALL ON %s FROM PUBLIC', object);
        FOR grantee IN
            SELECT DISTINCT a.grantee::pg_catalog.regrole::text
              FROM pg_catalog.pg_default_acl AS d, pg_catalog.aclexplode(d.defaclacl) AS a
             WHERE a.grantee NOT IN (0, d.defaclrole, (SELECT n.nspowner FROM pg_catalog.pg_namespace n WHERE n.nspname = 'sched'))
        LOOP
            EXECUTE pg_catalog.format('REVOKE ALL ON %s FROM %s CASCADE', object, grantee);
        END LOOP;
    END LOOP;
END
$$;
-- Users and monitors get the rights on what is new, and nobody the types of rows.
SELECT sched_internal.grant_again();
-- The dispatcher has waited for this.
SELECT sched_internal.wake_dispatcher();
