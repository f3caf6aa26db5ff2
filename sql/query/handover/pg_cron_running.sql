-- Runs that go on: of a live process that was there when the run began, or about to be started. A row that a crash has left has no such process,
-- and pg_cron itself marks those failed when it starts. $1 source ids
SELECT DISTINCT d.jobid::text AS id
  FROM ONLY {schema}.job_run_details AS d
 WHERE d.jobid::text = ANY ($1) AND d.end_time IS NULL AND d.status IN ('starting', 'connecting', 'sending', 'running')
   AND (d.job_pid IS NULL
        OR EXISTS (SELECT FROM pg_catalog.pg_stat_activity a WHERE a.pid = d.job_pid AND (d.start_time IS NULL OR a.backend_start <= d.start_time + interval '1 second')))
