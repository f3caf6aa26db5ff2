-- Jobs of this transaction whose schedule could not be made. $1 names
DELETE FROM sched.job j WHERE j.job_name = ANY ($1)
