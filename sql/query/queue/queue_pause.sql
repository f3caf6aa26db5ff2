-- Nobody claims from the queue any more. $1 queue, $2 who says so
INSERT INTO sched.paused_queue (queue, paused_by)
VALUES ($1, (SELECT r.rolname FROM pg_roles r WHERE r.oid = $2))
    ON CONFLICT (queue) DO NOTHING
