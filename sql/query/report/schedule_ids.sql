-- The numbers of the schedules that a role may read about, by their names, and whether it may act for their owner. $1 pattern of the name (NULL = all), $2 the name (NULL = all),
-- $3 role, $4 whether it reads everything
SELECT s.schedule_name, s.schedule_id, r.owns
  FROM sched.schedule s
  LEFT JOIN sched.job j ON j.job_name = s.job_name
 CROSS JOIN LATERAL (
       SELECT pg_has_role($3, COALESCE(j.owner, (SELECT n.nspowner FROM pg_namespace n WHERE n.nspname = 'sched')), 'USAGE') AS owns) AS r
 WHERE ($1 IS NULL OR s.schedule_name LIKE $1) AND ($2 IS NULL OR s.schedule_name = $2) AND ($4 OR r.owns)
