-- Chains; without run_as they run as whoever made the tables, which is who pg_timetable connects as.
SELECT c.chain_id::text AS id, c.chain_name::text AS name, c.run_at AS run_at,
       EXTRACT(epoch FROM CASE WHEN c.run_at ~ '^@(every|after)' AND c.run_at !~* 'infinity' THEN pg_catalog.substr(c.run_at, 7)::interval END)::bigint::text AS seconds,
       c.max_instances::text AS max_instances, c.timeout::text AS timeout, COALESCE(c.live, false)::text AS live,
       COALESCE(c.self_destruct, false)::text AS self_destruct, COALESCE(c.exclusive_execution, false)::text AS exclusive_execution,
       c.client_name::text AS client_name, pg_catalog.to_jsonb(c) ->> 'on_error' AS on_error,
       pg_catalog.to_jsonb(c) ->> 'run_at_time_zone' AS time_zone, pg_catalog.pg_get_userbyid(r.relowner)::text AS owner
  FROM ONLY {schema}.chain AS c
  JOIN pg_catalog.pg_class AS r ON r.oid = c.tableoid
 ORDER BY c.chain_id
