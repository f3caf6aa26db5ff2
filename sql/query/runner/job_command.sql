-- What test_job runs. $1 job_name
SELECT j.kind, j.owner::oid AS job_owner, j.command, j.settings, j.own_transactions, j.run_timeout
  FROM sched.job j
 WHERE j.job_name = $1
