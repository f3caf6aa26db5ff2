-- Which of these queues are paused. $1 queues
SELECT p.queue FROM sched.paused_queue p WHERE p.queue = ANY ($1)
