-- One schedule that uses the job, or gives its alerts to it, if any. $1 job_name
(SELECT s.schedule_name FROM sched.schedule s WHERE s.job_name = $1 LIMIT 1)
UNION ALL
(SELECT s.schedule_name FROM sched.schedule s WHERE s.alert_job = $1 LIMIT 1)
LIMIT 1
