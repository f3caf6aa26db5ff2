-- A run of a chain is what its transaction was of: its tasks are written down one by one. Microseconds since 1970, as text.
SELECT e.chain_id::text AS id, pg_catalog.trunc(EXTRACT(epoch FROM min(e.last_run)) * 1000000)::text AS began,
       pg_catalog.trunc(EXTRACT(epoch FROM max(e.finished)) * 1000000)::text AS ended
  FROM ONLY {schema}.execution_log AS e
 WHERE e.last_run >= pg_catalog.to_timestamp($1) AND e.last_run < pg_catalog.to_timestamp($2)
 GROUP BY e.chain_id, e.txid, e.client_name, e.pid
 ORDER BY e.chain_id, min(e.last_run)
