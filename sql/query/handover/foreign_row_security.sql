-- Whether policies decide which rows of a table a role writes. $1 the schema, $2 the table
SELECT c.relrowsecurity::text AS has_policies
  FROM pg_catalog.pg_class c
  JOIN pg_catalog.pg_namespace n ON n.oid = c.relnamespace
 WHERE n.nspname = $1 AND c.relname = $2
