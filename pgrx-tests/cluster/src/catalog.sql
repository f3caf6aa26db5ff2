-- All that a database knows of the extension's objects, as lines of text without oids, so that two databases can be compared.
-- Where nothing is set (a NULL), the line says "-".
WITH schema AS (
    SELECT n.* FROM pg_namespace n WHERE n.nspname IN ('sched', 'sched_internal')
), relation AS (
    SELECT c.*, c.oid::regclass::text AS name FROM pg_class c WHERE c.relnamespace IN (SELECT n.oid FROM schema n)
), function AS (
    SELECT p.*, p.oid::regprocedure::text AS name FROM pg_proc p WHERE p.pronamespace IN (SELECT n.oid FROM schema n)
), fact (kind, name, parts) AS (
    SELECT 'schema', n.nspname::text,
           ARRAY['owner', n.nspowner::regrole::text, 'acl', (SELECT array_agg(acl::text ORDER BY acl::text) FROM unnest(n.nspacl) AS acl)::text, 'comment', obj_description(n.oid, 'pg_namespace')]
      FROM schema n
    UNION ALL
    SELECT 'relation', r.name,
           ARRAY['kind', r.relkind::text, 'persistence', r.relpersistence::text, 'options', r.reloptions::text, 'owner', r.relowner::regrole::text, 'row security', r.relrowsecurity::text, 'replica identity', r.relreplident::text,
                 'acl', (SELECT array_agg(acl::text ORDER BY acl::text) FROM unnest(r.relacl) AS acl)::text, 'comment', obj_description(r.oid, 'pg_class'),
                 'view', CASE WHEN r.relkind IN ('v', 'm') THEN pg_get_viewdef(r.oid) END]
      FROM relation r WHERE r.relkind <> 'i'
    UNION ALL
    SELECT 'column', r.name || '.' || a.attname,
           ARRAY['place', row_number() OVER (PARTITION BY r.oid ORDER BY a.attnum)::text, 'type', format_type(a.atttypid, a.atttypmod),
                 'not null', a.attnotnull::text, 'default', pg_get_expr(d.adbin, d.adrelid), 'identity', a.attidentity::text,
                 'generated', a.attgenerated::text, 'storage', a.attstorage::text, 'statistics', nullif(a.attstattarget, -1)::text,
                 -- (pg_attver is a counter that some builds of the server keep among the options.)
                 'options', (SELECT array_agg(o)::text FROM unnest(a.attoptions) AS o WHERE o NOT LIKE 'pg\_attver=%'), 'collation', nullif(a.attcollation, 0)::regcollation::text,
                 'acl', (SELECT array_agg(acl::text ORDER BY acl::text) FROM unnest(a.attacl) AS acl)::text, 'comment', col_description(r.oid, a.attnum)]
      FROM relation r
      JOIN pg_attribute a ON a.attrelid = r.oid AND a.attnum > 0 AND NOT a.attisdropped
      LEFT JOIN pg_attrdef d ON d.adrelid = r.oid AND d.adnum = a.attnum
     WHERE r.relkind IN ('r', 'v', 'm', 'p', 'f', 'c')
    UNION ALL
    SELECT 'constraint', r.name || ' ' || c.conname,
           ARRAY['is', pg_get_constraintdef(c.oid), 'valid', c.convalidated::text, 'comment', obj_description(c.oid, 'pg_constraint')]
      FROM relation r JOIN pg_constraint c ON c.conrelid = r.oid
    UNION ALL
    SELECT 'index', r.name,
           ARRAY['is', pg_get_indexdef(i.indexrelid), 'valid', i.indisvalid::text, 'clustered', i.indisclustered::text,
                 'comment', obj_description(r.oid, 'pg_class')]
      FROM relation r JOIN pg_index i ON i.indexrelid = r.oid
    UNION ALL
    SELECT 'trigger', r.name || ' ' || t.tgname,
           ARRAY['is', pg_get_triggerdef(t.oid), 'enabled', t.tgenabled::text, 'comment', obj_description(t.oid, 'pg_trigger')]
      FROM relation r JOIN pg_trigger t ON t.tgrelid = r.oid WHERE NOT t.tgisinternal
    UNION ALL
    SELECT 'rule or policy', r.name || ' ' || o.name, ARRAY['is', o.definition]
      FROM relation r
      JOIN (SELECT w.ev_class AS of, w.rulename AS name, pg_get_ruledef(w.oid) AS definition
              FROM pg_rewrite w WHERE w.rulename <> '_RETURN'
            UNION ALL
            SELECT l.polrelid, l.polname, pg_get_expr(l.polqual, l.polrelid) FROM pg_policy l) AS o ON o.of = r.oid
    UNION ALL
    SELECT 'sequence', r.name,
           ARRAY['type', s.seqtypid::regtype::text, 'start', s.seqstart::text, 'by', s.seqincrement::text, 'from', s.seqmin::text,
                 'to', s.seqmax::text, 'cache', s.seqcache::text, 'cycle', s.seqcycle::text,
                 'of', (SELECT format('%s.%s (%s)', d.refobjid::regclass, a.attname, d.deptype)
                          FROM pg_depend d JOIN pg_attribute a ON a.attrelid = d.refobjid AND a.attnum = d.refobjsubid
                         WHERE d.objid = r.oid AND d.classid = 'pg_class'::regclass AND d.deptype IN ('a', 'i'))]
      FROM relation r JOIN pg_sequence s ON s.seqrelid = r.oid
    UNION ALL
    SELECT 'function', f.name,
           ARRAY['arguments', pg_get_function_arguments(f.oid), 'result', pg_get_function_result(f.oid), 'kind', f.prokind::text,
                 'language', (SELECT l.lanname FROM pg_language l WHERE l.oid = f.prolang)::text, 'volatile', f.provolatile::text,
                 'strict', f.proisstrict::text, 'parallel', f.proparallel::text, 'security definer', f.prosecdef::text,
                 'leakproof', f.proleakproof::text, 'cost', f.procost::text, 'rows', f.prorows::text, 'settings', f.proconfig::text,
                 'library', f.probin, 'source', f.prosrc, 'owner', f.proowner::regrole::text, 'acl', (SELECT array_agg(acl::text ORDER BY acl::text) FROM unnest(f.proacl) AS acl)::text, 'comment', obj_description(f.oid, 'pg_proc')]
      FROM function f
    UNION ALL
    -- The types of rows, and whatever types there are of their own.
    SELECT 'type', format_type(t.oid, NULL),
           ARRAY['kind', t.typtype::text, 'of', t.typrelid::regclass::text, 'owner', t.typowner::regrole::text, 'acl', (SELECT array_agg(acl::text ORDER BY acl::text) FROM unnest(t.typacl) AS acl)::text]
      FROM pg_type t WHERE t.typnamespace IN (SELECT n.oid FROM schema n) AND t.typelem = 0
    UNION ALL
    -- Whatever else there is: types, casts, operators …
    SELECT 'member', pg_describe_object(d.classid, d.objid, 0), ARRAY['schema', 'sched']
      FROM pg_depend d JOIN pg_extension e ON e.oid = d.refobjid
     WHERE d.refclassid = 'pg_extension'::regclass AND d.deptype = 'e' AND e.extname = 'scheduler'
    UNION ALL
    -- Rights that pg_dump takes for the extension's own.
    SELECT 'initial rights', pg_describe_object(i.classoid, i.objoid, i.objsubid), ARRAY['acl', (SELECT array_agg(acl::text ORDER BY acl::text) FROM unnest(i.initprivs) AS acl)::text]
      FROM pg_init_privs i
      JOIN pg_depend d ON d.classid = i.classoid AND d.objid = i.objoid AND d.deptype = 'e'
      JOIN pg_extension e ON e.oid = d.refobjid AND e.extname = 'scheduler'
     WHERE i.privtype = 'e'
    UNION ALL
    SELECT 'dumped', c.relation::regclass::text, ARRAY['rows', c.condition]
      FROM pg_extension e, unnest(e.extconfig, e.extcondition) AS c (relation, condition) WHERE e.extname = 'scheduler'
    UNION ALL
    SELECT 'extension', e.extname::text,
           ARRAY['owner', e.extowner::regrole::text, 'version', e.extversion, 'schema', e.extnamespace::regnamespace::text, 'relocatable', e.extrelocatable::text]
      FROM pg_extension e WHERE e.extname = 'scheduler'
)
SELECT f.kind || ' ' || f.name || ': ' || array_to_string(f.parts, ' | ', '-') FROM fact f
