-- Changes that nobody else is working on, with the lock on their timers; a change whose timer is busy stays for later. So does one
-- that has no timer, if an earlier one of the same schedule is not ours: somebody is just inserting that timer, and to insert it too
-- would wait for that transaction.
-- $1 limit
WITH picked AS MATERIALIZED (
    SELECT c.change_id, c.schedule_id, c.terminal_at
      FROM sched.schedule_change c
     ORDER BY c.change_id
     LIMIT $1
       FOR UPDATE SKIP LOCKED
), locked AS MATERIALIZED (
    SELECT t.schedule_id
      FROM sched.timer t
     WHERE t.schedule_id IN (SELECT p.schedule_id FROM picked p)
     ORDER BY t.schedule_id
       FOR UPDATE SKIP LOCKED
)
SELECT p.schedule_id, max(p.terminal_at), array_agg(p.change_id)
  FROM picked p
 WHERE p.schedule_id IN (SELECT l.schedule_id FROM locked l)
    OR (NOT EXISTS (SELECT FROM sched.timer t WHERE t.schedule_id = p.schedule_id)
        AND p.schedule_id NOT IN (SELECT o.schedule_id
                                    FROM sched.schedule_change o
                                   WHERE o.change_id < (SELECT max(n.change_id) FROM picked n)
                                     AND o.change_id NOT IN (SELECT n.change_id FROM picked n)))
 GROUP BY p.schedule_id
 ORDER BY p.schedule_id
