-- A schedule and whether a role may read about it. Without its job nobody but the extension's owner is known to own it.
-- $1 schedule_name, $2 role
SELECT s.schedule_id,
       pg_has_role($2, COALESCE(j.owner, (SELECT n.nspowner FROM pg_namespace n WHERE n.nspname = 'sched')), 'USAGE')
       OR has_table_privilege($2, 'sched.monitor', 'SELECT') AS may_read
  FROM sched.schedule s
  LEFT JOIN sched.job j ON j.job_name = s.job_name
 WHERE s.schedule_name = $1
