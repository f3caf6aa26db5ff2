-- Asks a run to stop; its next heartbeat answers cancel. $1 execution_id
UPDATE sched.lease l SET cancel_requested = true WHERE l.execution_id = $1 RETURNING l.sweep_at
