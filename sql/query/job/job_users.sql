-- One schedule that uses the job, if any. $1 job_name
SELECT s.schedule_name FROM sched.schedule s WHERE s.job_name = $1 LIMIT 1
