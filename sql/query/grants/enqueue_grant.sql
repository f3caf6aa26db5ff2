-- Lets a role enqueue a job; the grants that it needs for that. $1 job_name, $2 role
WITH granted AS (INSERT INTO sched.enqueue_grant (job_name, role) VALUES ($1, $2) ON CONFLICT DO NOTHING)
SELECT format(g.text, $2::regrole) AS grant
  FROM (SELECT 'GRANT USAGE ON SCHEMA sched TO %s', n.nspacl FROM pg_namespace n WHERE n.nspname = 'sched'
        UNION ALL
        SELECT 'GRANT EXECUTE ON FUNCTION ' || p.oid::regprocedure || ' TO %s', p.proacl
          FROM pg_proc p
         WHERE p.pronamespace = 'sched'::regnamespace AND p.proname IN ('enqueue', 'enqueue_many')) AS g (text, acl)
 -- What the role has already is not given again: a GRANT locks a row of the catalog to the end of the transaction.
 WHERE NOT EXISTS (SELECT FROM aclexplode(g.acl) AS a WHERE a.grantee = $2)
