-- Definitions that ended before the retention's limit go, some at a time; what somebody's open transaction has in hand is left to the
-- next walk. $1 limit, $2 at most
WITH old AS MATERIALIZED (
    SELECT o.past_id
      FROM sched.schedule_past o
     WHERE o.until_at < $1 AND o.settled
     ORDER BY o.until_at
     LIMIT $2
       FOR UPDATE SKIP LOCKED
)
DELETE FROM sched.schedule_past p USING old o WHERE p.past_id = o.past_id
