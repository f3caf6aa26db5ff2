-- Where executions of a job wait that the caller may change, and its kind, locked against other changes. $1 job_name, $2 caller
SELECT j.ready_queue, j.kind FROM sched.job j WHERE j.job_name = $1 AND pg_has_role($2, j.owner, 'USAGE') FOR NO KEY UPDATE
