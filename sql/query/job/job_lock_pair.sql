-- As job_read, and whether schedule_sql knows the job; locked against other changes, but not against schedules that begin to use it: an edit
-- locks its schedule before its job. $1 job_name
SELECT j.owner::oid AS owner, j.ready_queue, j.priority, j.max_attempts, j.allow_stale_reentry, j.stale_timeout, j.run_timeout, j.kind, j.sql_pair
  FROM sched.job j
 WHERE j.job_name = $1
   FOR NO KEY UPDATE
