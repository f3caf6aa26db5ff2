-- A trigger that would run something of somebody's who is neither a superuser nor the caller: its function, or its condition, where others may
-- make triggers. Who made one nobody writes down. $1 the schema, $2 the table, $3 the caller
WITH t AS (
    SELECT c.oid, c.relacl
      FROM pg_catalog.pg_class c
      JOIN pg_catalog.pg_namespace n ON n.oid = c.relnamespace
     WHERE n.nspname = $1 AND c.relname = $2
), others AS (
    SELECT CASE WHEN a.grantee = 0 THEN 'PUBLIC' ELSE pg_catalog.pg_get_userbyid(a.grantee)::text END AS role
      FROM t, pg_catalog.aclexplode(t.relacl) AS a
      LEFT JOIN pg_catalog.pg_roles r ON r.oid = a.grantee
     WHERE a.privilege_type = 'TRIGGER' AND a.grantee <> $3 AND NOT COALESCE(r.rolsuper, false)
     LIMIT 1
)
SELECT g.tgname AS name, CASE WHEN is_strange.owner THEN pg_catalog.pg_get_userbyid(p.proowner)::text ELSE o.role END AS owner, is_strange.owner::text AS by_function
  FROM t
  JOIN pg_catalog.pg_trigger g ON g.tgrelid = t.oid
  JOIN pg_catalog.pg_proc p ON p.oid = g.tgfoid
  LEFT JOIN pg_catalog.pg_roles r ON r.oid = p.proowner
 CROSS JOIN LATERAL (SELECT NOT COALESCE(r.rolsuper, false) AND p.proowner <> $3) AS is_strange (owner)
  LEFT JOIN others o ON g.tgqual IS NOT NULL
 WHERE is_strange.owner OR o.role IS NOT NULL
 LIMIT 1
