-- When the newest run of each began, in microseconds since 1970. $1 source ids
SELECT e.chain_id::text AS id, pg_catalog.trunc(EXTRACT(epoch FROM max(e.last_run)) * 1000000)::text AS began, NULL::text AS ended
  FROM ONLY {schema}.execution_log AS e
 WHERE e.chain_id::text = ANY ($1)
 GROUP BY e.chain_id
