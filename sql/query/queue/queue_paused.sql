-- Whether a queue is paused. $1 queue
SELECT p.queue FROM sched.paused_queue p WHERE p.queue = $1
