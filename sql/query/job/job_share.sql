-- The owner of a job, which no other transaction changes before this one ends. $1 job_name
SELECT j.owner::oid AS owner FROM sched.job j WHERE j.job_name = $1 FOR SHARE
