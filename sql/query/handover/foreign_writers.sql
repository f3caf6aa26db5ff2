-- Roles beside the caller and superusers who may write these rows. $1 the schema, $2 the tables, $3 the caller
SELECT min(CASE WHEN w.grantee = 0 THEN 'PUBLIC' ELSE pg_get_userbyid(w.grantee) END) AS writer
  FROM (SELECT a.grantee, a.privilege_type, c.relname
          FROM pg_class AS c, aclexplode(c.relacl) AS a
         WHERE c.relnamespace = (SELECT n.oid FROM pg_namespace AS n WHERE n.nspname = $1) AND c.relname = ANY ($2)
        UNION ALL
        SELECT a.grantee, a.privilege_type, c.relname
          FROM pg_class AS c
          JOIN pg_attribute AS t ON t.attrelid = c.oid AND t.attnum > 0 AND NOT t.attisdropped, aclexplode(t.attacl) AS a
         WHERE c.relnamespace = (SELECT n.oid FROM pg_namespace AS n WHERE n.nspname = $1) AND c.relname = ANY ($2)
        UNION ALL
        SELECT m.oid, 'INSERT', NULL
          FROM pg_roles AS m
         WHERE NOT m.rolsuper AND m.rolname <> 'pg_write_all_data' AND pg_has_role(m.oid, 'pg_write_all_data', 'USAGE')) AS w
  LEFT JOIN pg_roles AS r ON r.oid = w.grantee
 WHERE w.privilege_type IN ('INSERT', 'UPDATE', 'TRIGGER') AND w.grantee <> $3 AND NOT COALESCE(r.rolsuper, false)
HAVING count(*) > 0
