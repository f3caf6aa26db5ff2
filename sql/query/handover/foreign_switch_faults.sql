-- A column that is no number or boolean of Postgres' own, or not there: to read it could run something, or take long. $1 the schema, $2 tables, $3 the column of each
SELECT w.table_name || '.' || w.column_name AS fault
  FROM unnest($2, $3) AS w (table_name, column_name)
 WHERE NOT EXISTS (SELECT FROM pg_catalog.pg_namespace n
                     JOIN pg_catalog.pg_class c ON c.relnamespace = n.oid
                     JOIN pg_catalog.pg_attribute a ON a.attrelid = c.oid AND a.attnum > 0 AND NOT a.attisdropped
                    WHERE n.nspname = $1 AND c.relname = w.table_name AND a.attname = w.column_name
                      AND a.atttypid = ANY (ARRAY['int2', 'int4', 'int8', 'bool']::pg_catalog.regtype[]))
 LIMIT 1
