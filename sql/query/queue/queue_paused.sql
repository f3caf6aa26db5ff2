-- Whether executions of an owner are paused in a queue; of no owner ($2 NULL): whether all are, by one pause or because each owner of a job there has
-- paused. $1 queue, $2 owner
SELECT p.queue
  FROM sched.paused_queue p
 WHERE p.queue = $1
   AND (p.owner IS NULL OR p.owner = $2
        OR $2 IS NULL
        AND (NOT EXISTS (SELECT
                          FROM sched.job j
                         WHERE j.queue = p.queue
                           AND NOT EXISTS (SELECT FROM sched.paused_queue o WHERE o.queue = p.queue AND o.owner = j.owner))
            AND EXISTS (SELECT FROM sched.job j WHERE j.queue = p.queue)))
 LIMIT 1
