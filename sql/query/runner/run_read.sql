-- What a runner has to know of an execution that it has claimed, and of its job as it is now. $1 execution_id
SELECT e.owner::oid AS owner, e.schedule_name, j.kind, j.owner::oid AS job_owner, j.command, j.settings,
       j.own_transactions, j.run_timeout
  FROM sched.ledger e
  LEFT JOIN sched.job j ON j.job_name = e.job_name
 WHERE e.id = $1
