-- Their rows, locked, and whether each is on. $1 source ids
SELECT j.jobid::text AS id, COALESCE(pg_catalog.to_jsonb(j) ->> 'active', 'true') AS enabled
  FROM ONLY {schema}.job AS j
 WHERE j.jobid::text = ANY ($1)
   FOR UPDATE
