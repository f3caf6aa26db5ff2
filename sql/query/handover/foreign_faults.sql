-- What about a table could run something when it is read. {table} is its oid; {of_superuser}: a superuser has it, whose policies and
-- indexes are as good as he is.
SELECT f.fault
  FROM (SELECT 1 AS place, pg_catalog.format('it has a column of type %s', pg_catalog.format_type(a.atttypid, NULL)) AS fault
          FROM pg_catalog.pg_attribute a
          JOIN pg_catalog.pg_type t ON t.oid = a.atttypid
         WHERE a.attrelid = {table}::oid AND a.attnum > 0 AND NOT a.attisdropped
           AND t.typnamespace <> 'pg_catalog'::pg_catalog.regnamespace
           -- Reading an enum or a domain runs nothing of its own; a cast would, and those are made by the type's owner.
           AND NOT (t.typnamespace = (SELECT c.relnamespace FROM pg_catalog.pg_class c WHERE c.oid = a.attrelid)
                    AND t.typowner = (SELECT c.relowner FROM pg_catalog.pg_class c WHERE c.oid = a.attrelid)
                    AND (t.typtype = 'e' OR EXISTS (SELECT FROM pg_catalog.pg_type b
                                                     WHERE b.oid = t.typbasetype AND t.typtype = 'd'
                                                       AND b.typnamespace = 'pg_catalog'::pg_catalog.regnamespace)))
        UNION ALL
        SELECT 2, 'it has a generated column' FROM pg_catalog.pg_attribute a
         WHERE a.attrelid = {table}::oid AND a.attnum > 0 AND NOT a.attisdropped AND a.attgenerated <> ''
        UNION ALL
        SELECT 3, 'it has a rule' FROM pg_catalog.pg_rewrite r WHERE r.ev_class = {table}::oid
        UNION ALL
        SELECT 4, 'it inherits, or is inherited from' FROM pg_catalog.pg_inherits i
         WHERE {table}::oid IN (i.inhrelid, i.inhparent)
        UNION ALL
        SELECT 5, 'it has row-level security' FROM pg_catalog.pg_class c
         WHERE c.oid = {table}::oid AND c.relrowsecurity AND NOT {of_superuser}
        UNION ALL
        SELECT 6, 'it has an index over an expression' FROM pg_catalog.pg_index i
         WHERE i.indrelid = {table}::oid AND (i.indexprs IS NOT NULL OR i.indpred IS NOT NULL) AND NOT {of_superuser}) AS f
 ORDER BY f.place
 LIMIT 1
