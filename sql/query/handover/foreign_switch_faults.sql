-- A column that is no number or boolean of Postgres' own, or not there: to read it could run something, or take long. {name}, {columns} rows of a table and its column
SELECT w.table_name || '.' || w.column_name AS fault
  FROM (VALUES {columns}) AS w (table_name, column_name)
 WHERE NOT EXISTS (SELECT FROM pg_catalog.pg_namespace n
                     JOIN pg_catalog.pg_class c ON c.relnamespace = n.oid
                     JOIN pg_catalog.pg_attribute a ON a.attrelid = c.oid AND a.attnum > 0 AND NOT a.attisdropped
                     JOIN pg_catalog.pg_type t ON t.oid = a.atttypid
                    WHERE n.nspname = {name} AND c.relname = w.table_name AND a.attname = w.column_name
                      AND t.typnamespace = 'pg_catalog'::pg_catalog.regnamespace AND t.typtype = 'b' AND t.typbyval)
 LIMIT 1
