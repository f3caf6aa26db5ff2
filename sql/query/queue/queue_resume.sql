-- $1 queue
DELETE FROM sched.paused_queue p WHERE p.queue = $1 RETURNING p.queue
