-- Those of these that are on. $1 source ids
SELECT DISTINCT j.jobid::text AS id FROM ONLY {schema}.job AS j WHERE j.jobid::text = ANY ($1) AND j.active IS NOT FALSE
