-- Its history, since 2.15. Microseconds since 1970.
SELECT h.job_id::text AS id, (EXTRACT(epoch FROM h.execution_start) * 1000000)::bigint::text AS began,
       (EXTRACT(epoch FROM h.execution_finish) * 1000000)::bigint::text AS ended
  FROM ONLY {schema}.bgw_job_stat_history AS h
 WHERE h.execution_start >= to_timestamp($1) AND h.execution_start < to_timestamp($2) AND isfinite(h.execution_start)
   AND (h.execution_finish IS NULL OR isfinite(h.execution_finish))
 ORDER BY h.job_id, h.execution_start, h.id
