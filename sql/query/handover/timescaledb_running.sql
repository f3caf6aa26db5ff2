-- Runs that go on: of a live process, which has the name of its job. $1 source ids
SELECT DISTINCT j.id::text AS id
  FROM ONLY {schema}.bgw_job AS j
  JOIN ONLY {runs}.bgw_job_stat AS s ON s.job_id = j.id
 WHERE j.id::text = ANY ($1) AND s.last_start > s.last_finish
   AND EXISTS (SELECT
                 FROM pg_catalog.pg_stat_activity AS p
                WHERE p.datname = pg_catalog.current_database() AND j.application_name::text IN (p.backend_type, p.application_name)
                  AND p.backend_start <= s.last_start + interval '1 second')
