-- When the newest run of each began, in microseconds since 1970. {ids} source ids
SELECT d.jobid::text AS id, (EXTRACT(epoch FROM max(d.start_time)) * 1000000)::bigint::text AS began
  FROM ONLY {schema}.job_run_details AS d
 WHERE d.jobid = ANY ({ids}::text[]::bigint[]) AND d.start_time IS NOT NULL
 GROUP BY d.jobid
