-- $1 job_name
DELETE FROM sched.job WHERE job_name = $1
