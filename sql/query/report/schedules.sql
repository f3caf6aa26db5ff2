-- The schedules that a role may read about, by their names. $1 pattern of the name (NULL = all), $2 the name (NULL = all), $3 role, $4 whether it reads everything
SELECT s.schedule_id, v.schedule_name, v.clock, v.time_zone, v.state, v.next_plan_time
  FROM sched.schedules v
  JOIN sched.schedule s ON s.schedule_name = v.schedule_name
  LEFT JOIN sched.job j ON j.job_name = s.job_name
 WHERE ($1 IS NULL OR v.schedule_name LIKE $1) AND ($2 IS NULL OR v.schedule_name = $2)
   AND ($4 OR pg_has_role($3, COALESCE(j.owner, (SELECT n.nspowner FROM pg_namespace n WHERE n.nspname = 'sched')), 'USAGE'))
 ORDER BY v.schedule_name
