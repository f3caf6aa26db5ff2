-- Definitions that ended before the retention's limit go, some at a time; what somebody's open transaction has in hand is left to the
-- next walk. $1 limit, $2 at most
WITH old AS MATERIALIZED (
    SELECT o.definition_id
      FROM sched.schedule_definition o
     WHERE o.valid_to < $1 AND o.settled
     ORDER BY o.valid_to
     LIMIT $2
       FOR UPDATE SKIP LOCKED
)
DELETE FROM sched.schedule_definition d USING old o WHERE d.definition_id = o.definition_id
