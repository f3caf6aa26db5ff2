-- The next changes that nobody else is working on, with the lock on their timers. What is to be done with each schedule: locked
-- (its timer is ours), new (it has none yet), or busy (somebody else has its timer, or is just inserting it): later.
-- Timers are found through arrays: written as joins or EXISTS these looks became a scan of all timers.
-- $1 change_id to go on after, $2 now, $3 limit
WITH picked AS MATERIALIZED (
    SELECT c.change_id, c.schedule_id, c.terminal_at, c.failures
      FROM sched.schedule_change c
     WHERE c.change_id > $1 AND (c.retry_at IS NULL OR c.retry_at <= $2)
     ORDER BY c.change_id
     LIMIT $3
       FOR UPDATE SKIP LOCKED
), locked AS MATERIALIZED (
    SELECT t.schedule_id
      FROM sched.timer t
     WHERE t.schedule_id = ANY (ARRAY(SELECT p.schedule_id FROM picked p))
       FOR UPDATE SKIP LOCKED
), known AS MATERIALIZED (
    SELECT t.schedule_id
      FROM sched.timer t
     WHERE t.schedule_id = ANY (ARRAY(SELECT p.schedule_id FROM picked p))
), put_off AS MATERIALIZED (
    -- Those that are to be tried again later and that nobody works on: that we get their lock says so.
    SELECT o.change_id
      FROM sched.schedule_change o
     WHERE o.retry_at > $2 AND o.schedule_id = ANY (ARRAY(SELECT p.schedule_id FROM picked p))
       FOR UPDATE SKIP LOCKED
)
SELECT p.schedule_id, max(p.terminal_at) AS terminal_at, array_agg(p.change_id) AS change_ids,
       CASE WHEN p.schedule_id IN (SELECT l.schedule_id FROM locked l) THEN 'locked'
            WHEN p.schedule_id IN (SELECT k.schedule_id FROM known k) THEN 'busy'
            -- An earlier change of a schedule without a timer that is not ours: somebody is just inserting the timer.
            WHEN EXISTS (SELECT FROM sched.schedule_change o
                          WHERE o.schedule_id = p.schedule_id AND o.change_id < max(p.change_id)
                            AND o.change_id <> ALL (array_agg(p.change_id))
                            AND o.change_id NOT IN (SELECT f.change_id FROM put_off f)) THEN 'busy'
            ELSE 'new' END AS timer_lock,
       max(p.failures) AS failures
  FROM picked p
 GROUP BY p.schedule_id
 ORDER BY p.schedule_id
