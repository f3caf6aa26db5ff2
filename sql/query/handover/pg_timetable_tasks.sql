-- The tasks of chains, in their order; those that are off are left out there too.
SELECT t.chain_id::text AS chain_id, t.kind AS kind, t.command::text AS command, t.run_as::text AS run_as,
       t.database_connection::text AS connection, t.ignore_error::text AS ignore_error, t.autonomous::text AS autonomous,
       t.timeout::text AS timeout, EXISTS (SELECT FROM ONLY {schema}.parameter AS p WHERE p.task_id = t.task_id)::text AS has_parameters
  FROM ONLY {schema}.task AS t
 WHERE t.chain_id IS NOT NULL AND COALESCE((pg_catalog.to_jsonb(t) ->> 'live')::boolean, true)
 ORDER BY t.chain_id, t.task_order, t.task_id
