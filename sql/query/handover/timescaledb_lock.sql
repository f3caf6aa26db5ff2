-- Their rows, locked, and whether each is on. {ids} source ids
SELECT j.id::text AS id, j.scheduled::text AS enabled FROM ONLY {schema}.bgw_job AS j WHERE j.id::text = ANY ({ids}::text[]) FOR UPDATE
