-- The schedules that are paused or parked, or whose last edit nobody has applied yet, and that a role may read about. $1 role
SELECT s.schedule_id, s.schedule_name
  FROM sched.schedule s
  LEFT JOIN sched.job j ON j.job_name = s.job_name
  LEFT JOIN sched.timer t ON t.schedule_id = s.schedule_id
 WHERE ((s.ownership = 'owned' AND (NOT s.enabled OR (t.parked AND t.version = s.version)))
        OR (s.version > 1 AND t.version IS DISTINCT FROM s.version
            AND s.schedule_id IN (SELECT c.schedule_id FROM sched.schedule_change c)))
   AND (pg_has_role($1, COALESCE(j.owner, (SELECT n.nspowner FROM pg_namespace n WHERE n.nspname = 'sched')), 'USAGE')
        OR has_table_privilege($1, 'sched.monitor', 'SELECT'))
 ORDER BY s.schedule_id
