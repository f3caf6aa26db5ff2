-- A trigger that would run something of somebody's who is neither a superuser nor the caller. {table}, {caller}
SELECT t.tgname::text AS name, p.proowner::pg_catalog.regrole::text AS owner
  FROM pg_catalog.pg_trigger t
  JOIN pg_catalog.pg_proc p ON p.oid = t.tgfoid
  JOIN pg_catalog.pg_roles r ON r.oid = p.proowner
 WHERE t.tgrelid = '{schema}.{table}'::pg_catalog.regclass AND NOT r.rolsuper AND p.proowner <> {caller}::pg_catalog.oid
 LIMIT 1
