-- Those of these names that a schedule or a job has. $1 names
SELECT n.name
  FROM unnest($1) AS n (name)
 WHERE EXISTS (SELECT FROM sched.schedule s WHERE s.schedule_name = n.name)
    OR EXISTS (SELECT FROM sched.job j WHERE j.job_name = n.name)
