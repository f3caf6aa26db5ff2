-- The job that an execution is of. $1 execution_id
SELECT e.job_name FROM sched.ledger e WHERE e.id = $1
