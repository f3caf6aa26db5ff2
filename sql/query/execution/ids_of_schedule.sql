-- The executions of a schedule, also those of its earlier keys, newest first. $1 schedule_id, $2 from or NULL, $3 to or NULL, $4 reader
SELECT e.id
  FROM sched.schedule s
 CROSS JOIN LATERAL (SELECT s.key UNION SELECT unnest(s.previous_keys)) AS k (key)
  JOIN sched.ledger e ON e.key = k.key AND e.schedule_id = s.schedule_id
 WHERE s.schedule_id = $1 AND e.plan_time >= COALESCE($2, '-infinity') AND e.plan_time < COALESCE($3, 'infinity')
   AND (pg_has_role($4, e.owner, 'USAGE') OR (SELECT has_table_privilege($4, 'sched.monitor', 'SELECT')))
 ORDER BY e.plan_time DESC
