-- Their rows, locked with those of their jobs, and whether each is on. $1 source ids
SELECT s.jscjobid::text || '/' || s.jscid::text AS id, s.jscenabled::text AS enabled
  FROM ONLY {schema}.pga_schedule AS s
  JOIN ONLY {schema}.pga_job AS j ON j.jobid = s.jscjobid
 WHERE s.jscjobid::text || '/' || s.jscid::text = ANY ($1)
   FOR UPDATE OF s, j
