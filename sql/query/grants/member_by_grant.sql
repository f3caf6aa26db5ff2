-- Whether a role is a member of another by grants with which it could SET ROLE to it: since 16 each says so, before all did. Of a superuser
-- pg_has_role says it of every role. A role with ADMIN OPTION can make a superuser a member without being asked (on 15 one with CREATEROLE, too),
-- so only grants by superusers count. (The column is read by name, since 15 has none.) $1 member, $2 role
WITH RECURSIVE reached (role) AS (
    SELECT $1::oid
    UNION
    SELECT m.roleid
      FROM reached r
      JOIN pg_auth_members m ON m.member = r.role
      JOIN pg_roles g ON g.oid = m.grantor AND g.rolsuper
     WHERE COALESCE((to_jsonb(m) ->> 'set_option')::boolean, true)
)
SELECT FROM reached r WHERE r.role = $2
