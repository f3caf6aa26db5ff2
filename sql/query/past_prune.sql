-- Definitions that ended before the retention's limit go, some at a time. $1 limit, $2 at most
DELETE FROM sched.schedule_past p
 WHERE p.past_id IN (SELECT o.past_id
                       FROM sched.schedule_past o
                      WHERE o.until_at < $1 AND o.settled
                      ORDER BY o.until_at
                      LIMIT $2)
