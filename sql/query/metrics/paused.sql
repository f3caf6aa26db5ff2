-- Which of these queues are paused: for all, or by each owner of a job there. $1 queues
SELECT DISTINCT p.queue
  FROM sched.paused_queue p
 WHERE p.queue = ANY ($1)
   AND (p.owner IS NULL
        OR (NOT EXISTS (SELECT
                          FROM sched.job j
                         WHERE j.queue = p.queue
                           AND NOT EXISTS (SELECT FROM sched.paused_queue o WHERE o.queue = p.queue AND o.owner = j.owner))
            AND EXISTS (SELECT FROM sched.job j WHERE j.queue = p.queue)))
