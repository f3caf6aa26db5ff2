-- The job is one of schedule_sql from now on. $1 job_name
UPDATE sched.job j SET sql_pair = true WHERE j.job_name = $1 AND NOT j.sql_pair
