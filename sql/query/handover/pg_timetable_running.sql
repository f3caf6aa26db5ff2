-- Runs that go on: of a client whose session is there. $1 source ids
SELECT DISTINCT a.chain_id::text AS id
  FROM ONLY {schema}.active_chain AS a
  JOIN ONLY {schema}.active_session AS s ON s.client_name = a.client_name
  JOIN pg_catalog.pg_stat_activity AS p ON p.pid = s.server_pid AND p.backend_start <= s.started_at + interval '1 second'
 WHERE a.chain_id::text = ANY ($1)
