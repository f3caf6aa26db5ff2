-- The leases that last as long as a runner's process.
SELECT l.execution_id, l.cancel_requested FROM sched.lease l WHERE l.sweep_at = 'infinity' LIMIT 10000
