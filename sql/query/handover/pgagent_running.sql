-- Runs that go on: of an agent whose process is there. A job that is due is about to run where there is one at all: it may have read
-- that already. $1 source ids
SELECT DISTINCT s.jscjobid::text || '/' || s.jscid::text AS id
  FROM ONLY {schema}.pga_schedule AS s
  JOIN ONLY {schema}.pga_job AS j ON j.jobid = s.jscjobid
 WHERE s.jscjobid::text || '/' || s.jscid::text = ANY ($1)
   AND EXISTS (SELECT
                 FROM ONLY {schema}.pga_jobagent AS a
                 JOIN pg_catalog.pg_stat_activity AS p ON p.pid = a.jagpid AND p.backend_start <= a.jaglogintime + interval '1 second'
                WHERE a.jagpid = j.jobagentid OR (j.jobagentid IS NULL AND j.jobenabled AND j.jobnextrun <= pg_catalog.clock_timestamp()))
