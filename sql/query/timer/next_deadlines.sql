-- What the dispatcher wakes for next: the first fire after $2, the first of what waits for a time after $6, and whether something waits for an
-- earlier one; whether something of no paused queue is to be
-- delivered (in queues whose names begin with $4, and come before $5), the first lease that may have gone stale; whether a
-- change after $3 can be applied now, and when one is tried again that could not; whether a timer is still due of those between
-- $1 and $2, which were just picked; when to look at dropped schedules of which somebody had something in hand; when to try a
-- cancel again; when to look for alerts, at once or as planned after $7.
-- Nothing waits for a time up to $8, and no lease is to be looked at up to $9.
-- One index probe each.
WITH RECURSIVE deliveries AS (
    (SELECT r.queue FROM sched.ready r WHERE r.queue >= $4 AND r.queue < $5 AND starts_with(r.queue, $4) ORDER BY r.queue LIMIT 1)
    UNION ALL
    SELECT n.queue
      FROM deliveries d
     CROSS JOIN LATERAL (
           SELECT r.queue FROM sched.ready r WHERE r.queue > d.queue AND r.queue < $5 AND starts_with(r.queue, $4) ORDER BY r.queue LIMIT 1) AS n
)
SELECT (SELECT min(t.fire_at) FROM sched.timer t WHERE t.fire_at > $2) AS fire_at,
       (SELECT min(r.retry_at) FROM sched.retry r WHERE r.retry_at > greatest($6, $8)) AS retry_at,
       EXISTS (SELECT FROM sched.retry r WHERE r.retry_at > $8 AND r.retry_at <= $6) AS retry_left_behind,
       EXISTS (SELECT
                 FROM deliveries d
                WHERE (SELECT p.queue FROM sched.paused_queue p WHERE p.queue = substr(d.queue, length($4) + 1) AND p.owner IS NULL) IS NULL) AS delivery_waits,
       (SELECT min(l.sweep_at) FROM sched.lease l WHERE l.sweep_at > $9 AND l.sweep_at < 'infinity') AS sweep_at,
       EXISTS (SELECT FROM sched.schedule_change c WHERE c.change_id > $3 AND c.retry_at IS NULL) AS change_waits,
       (SELECT min(c.retry_at) FROM sched.schedule_change c WHERE c.retry_at IS NOT NULL) AS change_retry_at,
       EXISTS (SELECT FROM sched.timer t WHERE t.fire_at > $1 AND t.fire_at <= $2) AS left_behind,
       (SELECT min(d.retry_at) FROM sched.schedule_dropped d) AS dropped_at,
       (SELECT min(c.retry_at) FROM sched.cancel_request c) AS cancel_at,
       COALESCE((SELECT w.due_at FROM sched.alert_watch w WHERE w.due_at = '-infinity' LIMIT 1),
                (SELECT min(w.due_at) FROM sched.alert_watch w WHERE w.due_at > $7)) AS alert_at
