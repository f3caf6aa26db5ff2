-- Their rows, locked, and whether each is on. $1 source ids
SELECT j.id::text AS id, j.scheduled::text AS enabled FROM ONLY {schema}.bgw_job AS j WHERE j.id::text = ANY ($1) FOR UPDATE
