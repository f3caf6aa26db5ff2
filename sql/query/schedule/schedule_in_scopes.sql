-- A schedule of a job with one of these scopes, now or before an edit. $1 job_name, $2 keys
SELECT s.schedule_name FROM sched.schedule s WHERE s.job_name = $1 AND (s.key = ANY ($2) OR s.previous_keys && $2) LIMIT 1
