-- Those of these that are on. {ids} source ids
SELECT j.id::text AS id FROM ONLY {schema}.bgw_job AS j WHERE j.id::text = ANY ({ids}::text[]) AND j.scheduled
