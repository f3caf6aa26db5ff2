-- When the newest run of each began, in microseconds since 1970. $1 source ids
SELECT d.jobid::text AS id, (EXTRACT(epoch FROM max(d.start_time)) * 1000000)::bigint::text AS began, NULL::text AS ended
  FROM ONLY {schema}.job_run_details AS d
 WHERE d.jobid::text = ANY ($1) AND d.start_time IS NOT NULL
 GROUP BY d.jobid
