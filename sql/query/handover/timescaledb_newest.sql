-- When the newest run of each began and ended, in microseconds since 1970. $1 source ids
SELECT s.job_id::text AS id, (EXTRACT(epoch FROM s.last_start) * 1000000)::bigint::text AS began,
       CASE WHEN s.last_finish >= s.last_start AND pg_catalog.isfinite(s.last_finish) THEN (EXTRACT(epoch FROM s.last_finish) * 1000000)::bigint::text END AS ended
  FROM ONLY {runs}.bgw_job_stat AS s
 WHERE s.job_id::text = ANY ($1) AND pg_catalog.isfinite(s.last_start)
