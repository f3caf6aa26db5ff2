-- $1 queue
SELECT p.queue FROM sched.paused_queue p WHERE p.queue = $1 AND p.owner IS NULL
