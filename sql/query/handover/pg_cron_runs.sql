-- Microseconds since 1970, as text, whatever the session shows times like.
SELECT d.jobid::text AS id, (EXTRACT(epoch FROM d.start_time) * 1000000)::bigint::text AS began,
       (EXTRACT(epoch FROM d.end_time) * 1000000)::bigint::text AS ended
  FROM ONLY {schema}.job_run_details AS d
 WHERE d.start_time >= pg_catalog.to_timestamp($1) AND d.start_time < pg_catalog.to_timestamp($2)
 ORDER BY d.jobid, d.start_time, d.runid
