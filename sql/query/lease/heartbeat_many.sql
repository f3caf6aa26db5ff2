-- heartbeat.sql for many, of those whose owner the caller may act for. One that another transaction has in hand holds as it is: nobody can take
-- it meanwhile, and the others' do not wait for it.
-- $1 execution_ids, $2 lease_tokens, $3 now, $4 caller
WITH held AS MATERIALIZED (
    SELECT l.execution_id, l.lease_token, l.owner::oid AS owner, l.run_until, l.sweep_at,
           l.cancel_requested OR EXISTS (SELECT FROM sched.cancel_request c WHERE c.execution_id = l.execution_id) AS cancel_requested
      FROM unnest($1, $2) AS a (execution_id, lease_token)
      JOIN sched.lease l ON l.execution_id = a.execution_id AND l.lease_token = a.lease_token
     WHERE pg_has_role($4, l.owner, 'USAGE')
), free AS MATERIALIZED (
    SELECT l.execution_id
      FROM held h
      JOIN sched.lease l ON l.execution_id = h.execution_id AND l.lease_token = h.lease_token
       FOR UPDATE OF l SKIP LOCKED
), beaten AS (
    UPDATE sched.lease l
       SET heartbeat_at = $3,
           stale_after = (($3 AT TIME ZONE 'UTC') + l.stale_timeout) AT TIME ZONE 'UTC',
           sweep_at = least(l.sweep_at, (($3 AT TIME ZONE 'UTC') + l.stale_timeout) AT TIME ZONE 'UTC')
      FROM free f
      JOIN held h ON h.execution_id = f.execution_id
     WHERE l.execution_id = f.execution_id
    RETURNING l.execution_id, l.lease_token, l.owner::oid AS owner, l.run_until, l.sweep_at,
              l.cancel_requested OR h.cancel_requested AS cancel_requested
)
SELECT b.execution_id, b.lease_token, b.owner, b.cancel_requested, b.run_until, b.sweep_at FROM beaten b
UNION ALL
SELECT h.execution_id, h.lease_token, h.owner, h.cancel_requested, h.run_until, h.sweep_at FROM held h
 WHERE NOT EXISTS (SELECT FROM free f WHERE f.execution_id = h.execution_id)
