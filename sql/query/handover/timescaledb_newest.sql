-- When the newest run of each began, in microseconds since 1970. $1 source ids
SELECT s.job_id::text AS id, (EXTRACT(epoch FROM s.last_start) * 1000000)::bigint::text AS began
  FROM ONLY _timescaledb_internal.bgw_job_stat AS s
 WHERE s.job_id::text = ANY ($1) AND pg_catalog.isfinite(s.last_start)
