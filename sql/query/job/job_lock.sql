-- As job_read; and nobody uses or changes the job before the transaction ends. $1 job_name
SELECT j.owner::oid AS owner, j.ready_queue, j.priority, j.max_attempts, j.allow_stale_reentry, j.stale_timeout, j.run_timeout, j.kind
  FROM sched.job j
 WHERE j.job_name = $1
   FOR UPDATE
