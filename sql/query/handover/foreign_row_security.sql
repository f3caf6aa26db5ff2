-- Whether policies decide which rows of a table a role writes. {name}: of the schema, {table}: both quoted as literals
SELECT c.relrowsecurity::text AS has_policies
  FROM pg_catalog.pg_class c
  JOIN pg_catalog.pg_namespace n ON n.oid = c.relnamespace
 WHERE n.nspname = {name} AND c.relname = {table}
