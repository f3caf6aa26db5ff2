-- The executions of a scope, newest first. $1 key, $2 from or NULL, $3 to or NULL, $4 reader
SELECT e.id
  FROM sched.ledger e
 WHERE e.key = $1 AND e.plan_time >= COALESCE($2, '-infinity') AND e.plan_time < COALESCE($3, 'infinity')
   AND (pg_has_role($4, e.owner, 'USAGE') OR (SELECT has_table_privilege($4, 'sched.monitor', 'SELECT')))
 ORDER BY e.plan_time DESC
