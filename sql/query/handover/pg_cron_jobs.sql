SELECT j.jobid::text AS id, pg_catalog.to_jsonb(j) ->> 'jobname' AS name, j.schedule::text AS schedule, j.command::text AS command,
       j.database::text AS database, j.nodename::text AS host, pg_catalog.to_jsonb(j) ->> 'nodeport' AS port, j.username::text AS role,
       COALESCE(pg_catalog.to_jsonb(j) ->> 'active', 'true') AS active
  FROM ONLY {schema}.job AS j
 ORDER BY j.jobid
