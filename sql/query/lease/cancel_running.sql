-- Asks a run to stop; its next heartbeat answers cancel. No row where it does not run, or another transaction has its lease in hand: that one is
-- not waited for. $1 execution_id
WITH free AS MATERIALIZED (
    SELECT l.execution_id FROM sched.lease l WHERE l.execution_id = $1 FOR NO KEY UPDATE SKIP LOCKED
)
UPDATE sched.lease l SET cancel_requested = true FROM free f WHERE l.execution_id = f.execution_id RETURNING l.sweep_at
