-- What a dashboard asks.
SELECT e.extname, e.extversion FROM pg_extension e WHERE e.extname = 'pg_cron';
SHOW cron.database_name;
SHOW cron.timezone;
SHOW cron.log_run;
SHOW cron.max_running_jobs;
SHOW cron.launch_active_jobs;
SELECT name, setting FROM pg_settings WHERE name LIKE 'cron.%' ORDER BY name;
SELECT j.jobid, j.jobname, j.schedule, j.active, r.status, r.start_time
  FROM cron.job j
  LEFT JOIN LATERAL (SELECT * FROM cron.job_run_details d WHERE d.jobid = j.jobid ORDER BY d.start_time DESC LIMIT 1) r ON true
 ORDER BY j.jobid;
SELECT date_trunc('hour', start_time) AS hour, count(*) FILTER (WHERE status = 'failed') AS failed FROM cron.job_run_details GROUP BY 1;
