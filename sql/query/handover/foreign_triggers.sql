-- A trigger that would run something of somebody's who is neither a superuser nor the caller. {name}, {table}, {caller}
SELECT t.tgname::text AS name, p.proowner::pg_catalog.regrole::text AS owner
  FROM pg_catalog.pg_trigger t
  JOIN pg_catalog.pg_proc p ON p.oid = t.tgfoid
  JOIN pg_catalog.pg_roles r ON r.oid = p.proowner
 WHERE t.tgrelid = (SELECT c.oid FROM pg_catalog.pg_class c JOIN pg_catalog.pg_namespace n ON n.oid = c.relnamespace
                     WHERE n.nspname = {name} AND c.relname = {table})
   AND NOT r.rolsuper AND p.proowner <> {caller}::pg_catalog.oid
 LIMIT 1
