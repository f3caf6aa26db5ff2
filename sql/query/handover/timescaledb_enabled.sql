-- Those of these that are on. $1 source ids
SELECT DISTINCT j.id::text AS id FROM ONLY {schema}.bgw_job AS j WHERE j.id::text = ANY ($1) AND j.scheduled
