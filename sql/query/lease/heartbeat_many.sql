-- heartbeat.sql for many, of those whose owner the caller may act for. In the order of their ids, so that two sessions never wait for each other in a circle.
-- $1 execution_ids, $2 lease_tokens, $3 now, $4 caller
WITH asked AS MATERIALIZED (
    SELECT a.execution_id, a.lease_token FROM unnest($1, $2) AS a (execution_id, lease_token) ORDER BY 1, 2
)
UPDATE sched.lease l
   SET heartbeat_at = $3,
       stale_after = (($3 AT TIME ZONE 'UTC') + l.stale_timeout) AT TIME ZONE 'UTC',
       sweep_at = least(l.sweep_at, (($3 AT TIME ZONE 'UTC') + l.stale_timeout) AT TIME ZONE 'UTC')
  FROM asked a
 WHERE l.execution_id = a.execution_id AND l.lease_token = a.lease_token AND pg_has_role($4, l.owner, 'USAGE')
RETURNING l.execution_id, l.lease_token, l.owner::oid AS owner, l.cancel_requested, l.run_until, l.sweep_at
