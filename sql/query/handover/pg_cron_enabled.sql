-- Those of these that are on. {ids} source ids
SELECT j.jobid::text AS id FROM ONLY {schema}.job AS j WHERE j.jobid = ANY ({ids}::text[]::bigint[]) AND COALESCE(pg_catalog.to_jsonb(j) ->> 'active', 'true') = 'true'
