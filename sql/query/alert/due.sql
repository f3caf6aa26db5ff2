-- Takes what is to be looked at now: what was planned after $1, which is all of it that is left, and what came up by itself. Of that some rows
-- of each of the next schedules, so that the many rows of one keep no other waiting. Only one process looks in a database, but others insert, and
-- dispatch_due thins out. $1 looked until, $2 now, $3 how many that were planned, $4 after which schedule, $5 how many schedules, $6 rows of each
WITH RECURSIVE woken AS (
    (SELECT w.schedule_id, 1::bigint AS number
       FROM sched.alert_watch w
      WHERE w.due_at = '-infinity' AND w.schedule_id > $4
      ORDER BY w.schedule_id
      LIMIT 1)
    UNION ALL
    SELECT n.schedule_id, k.number + 1
      FROM woken k
     CROSS JOIN LATERAL (
           SELECT w.schedule_id
             FROM sched.alert_watch w
            WHERE w.due_at = '-infinity' AND w.schedule_id > k.schedule_id
            ORDER BY w.schedule_id
            LIMIT 1) AS n
     WHERE k.number < $5
), news AS MATERIALIZED (
    SELECT r.due_at, r.schedule_id, r.watch_id
      FROM woken k
     CROSS JOIN LATERAL (
           SELECT w.due_at, w.schedule_id, w.watch_id
             FROM sched.alert_watch w
            WHERE w.due_at = '-infinity' AND w.schedule_id = k.schedule_id
            ORDER BY w.watch_id
            LIMIT $6
              FOR UPDATE SKIP LOCKED) AS r
), planned AS MATERIALIZED (
    SELECT w.due_at, w.schedule_id, w.watch_id
      FROM sched.alert_watch w
     WHERE w.due_at > $1 AND w.due_at <= $2
     ORDER BY w.due_at, w.schedule_id, w.watch_id
     LIMIT $3
), picked AS MATERIALIZED (
    SELECT * FROM news UNION ALL SELECT * FROM planned
)
DELETE FROM sched.alert_watch w
 USING picked p
 WHERE w.due_at = p.due_at AND w.schedule_id = p.schedule_id AND w.watch_id = p.watch_id
RETURNING w.schedule_id, w.execution_id, w.failed, w.due_at > '-infinity' AS planned
