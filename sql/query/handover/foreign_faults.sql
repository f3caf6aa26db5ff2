-- What about a table could run something when it is read. $1 is its oid, $2 whether a superuser has it, whose policies, indexes and
-- statistics are as good as he is.
SELECT f.fault
  FROM (SELECT 1 AS place, pg_catalog.format('it has a column of type %s', pg_catalog.format_type(a.atttypid, NULL)) AS fault
          FROM pg_catalog.pg_attribute a
          JOIN pg_catalog.pg_type t ON t.oid = a.atttypid
         WHERE a.attrelid = $1 AND a.attnum > 0 AND NOT a.attisdropped
           AND t.typnamespace <> 'pg_catalog'::pg_catalog.regnamespace
           -- Reading an enum or a domain runs nothing of its own; a cast would, and those are made by the type's owner.
           AND NOT (t.typnamespace = (SELECT c.relnamespace FROM pg_catalog.pg_class c WHERE c.oid = a.attrelid)
                    AND t.typowner = (SELECT c.relowner FROM pg_catalog.pg_class c WHERE c.oid = a.attrelid)
                    AND (t.typtype = 'e' OR EXISTS (SELECT FROM pg_catalog.pg_type b
                                                     WHERE b.oid = t.typbasetype AND t.typtype = 'd'
                                                       AND b.typnamespace = 'pg_catalog'::pg_catalog.regnamespace)))
        UNION ALL
        SELECT 2, 'it has a generated column' FROM pg_catalog.pg_attribute a
         WHERE a.attrelid = $1 AND a.attnum > 0 AND NOT a.attisdropped AND a.attgenerated <> ''
        UNION ALL
        SELECT 3, 'it has a rule' FROM pg_catalog.pg_rewrite r WHERE r.ev_class = $1
        UNION ALL
        SELECT 4, 'it inherits, or is inherited from' FROM pg_catalog.pg_inherits i
         WHERE $1 IN (i.inhrelid, i.inhparent)
        UNION ALL
        SELECT 5, 'it has row-level security' FROM pg_catalog.pg_class c
         WHERE c.oid = $1 AND c.relrowsecurity AND NOT $2
        UNION ALL
        SELECT 6, 'it has an index over an expression' FROM pg_catalog.pg_index i
         WHERE i.indrelid = $1 AND (i.indexprs IS NOT NULL OR i.indpred IS NOT NULL) AND NOT $2
        UNION ALL
        -- To plan a query is to work out what is constant in them.
        SELECT 7, 'it has statistics over an expression' FROM pg_catalog.pg_statistic_ext x
         WHERE x.stxrelid = $1 AND x.stxexprs IS NOT NULL AND NOT $2) AS f
 ORDER BY f.place
 LIMIT 1
