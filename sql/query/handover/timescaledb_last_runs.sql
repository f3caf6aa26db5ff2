-- Where a version keeps no history: the last run of each job. Microseconds since 1970.
SELECT h.job_id::text AS id, (EXTRACT(epoch FROM h.last_start) * 1000000)::bigint::text AS began,
       CASE WHEN isfinite(h.last_finish) THEN (EXTRACT(epoch FROM h.last_finish) * 1000000)::bigint::text END AS ended
  FROM ONLY {schema}.bgw_job_stat AS h
 WHERE isfinite(h.last_start) AND h.last_start >= to_timestamp($1) AND h.last_start < to_timestamp($2)
 ORDER BY h.job_id
