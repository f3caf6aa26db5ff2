-- Those of these that are on. $1 source ids
SELECT DISTINCT s.jscjobid::text || '/' || s.jscid::text AS id
  FROM ONLY {schema}.pga_schedule AS s
 WHERE s.jscjobid::text || '/' || s.jscid::text = ANY ($1) AND s.jscenabled
   -- No join: who has dropped the keys of his own tables could have it return the product of both.
   AND EXISTS (SELECT FROM ONLY {schema}.pga_job AS j WHERE j.jobid = s.jscjobid AND j.jobenabled)
