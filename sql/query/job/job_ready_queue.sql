-- A job that the caller may change: its owner, where its executions wait, and its kind, locked against other changes. $1 job_name, $2 caller
SELECT j.owner::oid AS owner, j.ready_queue, j.kind FROM sched.job j WHERE j.job_name = $1 AND pg_has_role($2, j.owner, 'USAGE') FOR NO KEY UPDATE
