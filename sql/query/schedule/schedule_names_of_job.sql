-- $1 schedule_names, $2 job_name
SELECT s.schedule_name FROM sched.schedule s WHERE s.schedule_name = ANY ($1) AND s.job_name = $2
