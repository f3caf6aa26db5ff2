-- What a schedule is called now that schedule_sql made by this name: of those whose job is this role's the one that is most as it was.
-- $1 the name of the pair, $2 role
SELECT s.schedule_name
  FROM sched.schedule s
  JOIN sched.job j ON j.job_name = s.job_name
 WHERE s.sql_pair = $1 AND j.owner::oid = $2
 ORDER BY s.schedule_name = $1 DESC, s.job_name = $1 DESC, s.schedule_id
 LIMIT 1
