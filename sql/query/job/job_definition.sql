-- A job as it stands, locked against other definitions. $1 job_name
SELECT j.owner::oid AS owner, j.kind, j.command, j.queue, j.max_attempts, j.retry_backoff, j.run_timeout, j.stale_timeout,
       j.allow_stale_reentry, j.priority, j.own_transactions, j.settings
  FROM sched.job j
 WHERE j.job_name = $1
   FOR NO KEY UPDATE
