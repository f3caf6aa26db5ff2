-- Heap-only unless the caller shortens the lease: sweep_at, the one indexed column, moves only down.
-- Days of a lease have 24 hours, whatever the session's zone: UTC has no others.
-- $1 execution_id, $2 lease_token, $3 stale_timeout (NULL = the lease's own), $4 progress (NULL = unchanged), $5 now
UPDATE sched.lease l
   SET heartbeat_at = $5,
       stale_after = (($5 AT TIME ZONE 'UTC') + COALESCE($3, l.stale_timeout)) AT TIME ZONE 'UTC',
       sweep_at = least(l.sweep_at, (($5 AT TIME ZONE 'UTC') + COALESCE($3, l.stale_timeout)) AT TIME ZONE 'UTC'),
       progress = COALESCE($4, l.progress)
 WHERE l.execution_id = $1 AND l.lease_token = $2
RETURNING l.owner::oid AS owner, l.cancel_requested OR EXISTS (SELECT FROM sched.cancel_request c WHERE c.execution_id = l.execution_id) AS cancel_requested,
          l.run_until, l.sweep_at
