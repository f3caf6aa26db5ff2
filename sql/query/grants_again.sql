-- What an update added goes to those who had the rest: users are known by a function that only they may call, monitors by the table
-- that is there to mark them, workers by the right to make executions.
SELECT sched.grant_use(a.grantee)
  FROM pg_proc p
 CROSS JOIN LATERAL aclexplode(p.proacl) AS a
 WHERE p.pronamespace = 'sched'::regnamespace AND p.proname = 'define_job' AND a.grantee NOT IN (0, p.proowner)
UNION ALL
SELECT sched.grant_monitor(a.grantee)
  FROM pg_class c
 CROSS JOIN LATERAL aclexplode(c.relacl) AS a
 WHERE c.oid = 'sched.monitor'::regclass AND a.privilege_type = 'SELECT' AND a.grantee NOT IN (0, c.relowner)
UNION ALL
SELECT sched.grant_worker(a.grantee)
  FROM pg_class c
 CROSS JOIN LATERAL aclexplode(c.relacl) AS a
 WHERE c.oid = 'sched.ledger'::regclass AND a.privilege_type = 'INSERT' AND a.grantee NOT IN (0, c.relowner)
