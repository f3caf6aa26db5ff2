-- Forgets all but the newest $2 rows of each schedule, of $1 that came up by themselves: where nobody looks, they do not pile up. Nobody waits.
WITH old AS MATERIALIZED (
    SELECT w.due_at, w.schedule_id, w.watch_id
      FROM sched.alert_watch w
      JOIN (SELECT n.watch_id, row_number() OVER (PARTITION BY n.schedule_id ORDER BY n.watch_id DESC) AS number
              FROM (SELECT f.schedule_id, f.watch_id
                      FROM sched.alert_watch f
                     WHERE f.due_at = '-infinity'
                     ORDER BY f.schedule_id DESC, f.watch_id DESC
                     LIMIT $1) AS n) AS r ON r.watch_id = w.watch_id AND r.number > $2
     WHERE w.due_at = '-infinity'
       FOR UPDATE OF w SKIP LOCKED
)
DELETE FROM sched.alert_watch w USING old o WHERE w.due_at = o.due_at AND w.schedule_id = o.schedule_id AND w.watch_id = o.watch_id
