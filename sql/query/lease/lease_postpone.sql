-- A stale run that could not be ended is looked at again after as long as it has been stale, between 1 s and 5 min.
-- $1 execution_id, $2 now
UPDATE sched.lease l
   SET sweep_at = $2 + least(greatest(CASE WHEN isfinite(l.stale_after) THEN $2 - l.stale_after END, interval '1 second'), interval '5 minutes')
 WHERE l.execution_id = $1
RETURNING l.sweep_at
