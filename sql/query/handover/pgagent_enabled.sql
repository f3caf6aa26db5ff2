-- Those of these that are on. {ids} source ids
SELECT s.jscjobid::text || '/' || s.jscid::text AS id
  FROM ONLY {schema}.pga_schedule AS s
  JOIN ONLY {schema}.pga_job AS j ON j.jobid = s.jscjobid
 WHERE s.jscjobid::text || '/' || s.jscid::text = ANY ({ids}::text[]) AND s.jscenabled AND j.jobenabled
