-- Leases that heartbeats have kept alive are looked at again when they can be stale at the earliest. $1 now, $2 none is to be looked at up to
-- this time
UPDATE sched.lease l
   SET sweep_at = l.stale_after
  FROM (SELECT k.execution_id FROM sched.lease k WHERE k.sweep_at > $2 AND k.sweep_at <= $1 AND k.stale_after > $1
           FOR UPDATE SKIP LOCKED) AS alive
 WHERE l.execution_id = alive.execution_id
RETURNING l.sweep_at
